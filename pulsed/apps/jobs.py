"""`pulsed job`, `pulsed jobs` and `pulsed report`: what owners of GPUs got out of them, over many daemons."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from pulsed.apps.daemon_client import (
    DaemonClient,
    DaemonUnreachable,
    RequestRefused,
    all_jobs,
    client_settings,
    clients_of,
    is_url,
)
from pulsed.errors import PulsedError
from pulsed.owners.report.account_totals import is_same_job, merged_account, merged_accounts
from pulsed.owners.report.job_comparison import compared_jobs, comparison_report
from pulsed.owners.report.job_line import job_line, with_gpus
from pulsed.owners.report.job_report import job_report
from pulsed.owners.report.text_table import job_table
from pulsed.owners.report.usage import LABELS, WORST, merged_usage, usage_csv, usage_table
from pulsed.printable import clean, clean_lines

Document = dict[str, Any]
Clients = Mapping[str, DaemonClient]
"""Daemons by node."""

_FILTERS = ("state", "user", "account", "namespace")


class OddAnswer(PulsedError):
    """A daemon sent a document that cannot be shown."""

    exit_code = 3


class JobNotFound(PulsedError):
    """No daemon has an account of the job."""


def run_job(options: argparse.Namespace) -> int:
    """Print the list, the report of one job, or two jobs side by side; return the exit code.

    Raises:
        NotJobstatsSummary: standard input has no summary of jobstats.
        JobNotFound: no daemon has the job.
        DaemonUnreachable, RequestRefused: no daemon answered without an error.
    """
    id, format = options.id, options.format
    if id is not None and is_url(id):  # the name of the job may follow
        names = [each for each in options.urls if not is_url(each)]
        urls = [id, *(each for each in options.urls if is_url(each))]
        if len(names) > 1:
            options.parser.error(f"{names[1]!r} is not the URL of a pulsed; give one ID")
        id, options.urls = names[0] if names else None, urls
    clients = clients_of(options.urls, options.nodes, client_settings(options))
    if options.compare and (id is not None or format not in ("text", "json")):
        options.parser.error("--compare takes two IDs, no other, and --format text or json")
    if options.compare:
        first, second = (_account(clients, each) for each in options.compare)
        shown = _json(compared_jobs(first, second)) if format == "json" else comparison_report(first, second)
        sys.stdout.write(shown)
    elif id is not None:
        account = _account(clients, id)  # if the id was used several times, the newest
        sys.stdout.write(with_gpus(sys.stdin.read(), account) + "\n" if format == "js1" else _FORMATS[format](account))
    elif format in ("text", "json"):
        _print_jobs(clients, format)
    else:
        options.parser.error(f"--format {format} needs an ID")
    return 0


def run_jobs(options: argparse.Namespace) -> int:
    """Print the jobs that pass the filters; return the exit code. Raises `DaemonUnreachable` and `RequestRefused`."""
    filters = {name: value for name in _FILTERS if (value := getattr(options, name))}
    if options.since is not None:
        filters["since"] = f"{time.time() - options.since:.0f}"
    clients = clients_of(options.urls, options.nodes, client_settings(options))
    _print_jobs(clients, options.format, urlencode(filters), with_findings=options.diagnose)
    return 0


def run_report(options: argparse.Namespace) -> int:
    """Print who used how many GPU hours; return the exit code. Raises `DaemonUnreachable` and `RequestRefused`.

    The nodes that are missing are named on stderr; JSON has them itself.
    """
    clients = clients_of(options.urls, options.nodes, client_settings(options))
    path = f"/report?by={options.by}&since={time.time() - options.since:.0f}&parts=true"
    answers = _all_answers(
        clients, lambda _, get: get(path), "rows", lambda each: _check_report(each, options)
    ).checked()
    merged = merged_usage(answers.documents, LABELS[options.by])
    usage: Document = {
        "by": options.by,
        "seconds": options.since,
        "rows": merged.rows,
        "worst": merged.worst[:WORST],
        "missing_nodes": answers.missing,
        "duplicates": merged.duplicates,
    }
    if options.format == "json":
        for row in (*usage["rows"], *usage["worst"]):
            row.pop("nodes", None)
        sys.stdout.write(_json(usage))
        return 0
    sys.stdout.write(usage_table(usage) if options.format == "table" else usage_csv(usage))
    sys.stderr.writelines(answers.missing_lines())
    sys.stderr.writelines(clean_lines(f"duplicate: {each}") for each in merged.duplicates)
    return 0


def _print_jobs(clients: Clients, format: str, filters: str = "", *, with_findings: bool = False) -> None:
    """Print the jobs of some daemons, running ones first; with `since` in the filters, all that match are read."""
    query = f"&{filters}" if filters else ""
    answers = _all_answers(
        clients,
        lambda client, get: all_jobs(client.address, get, query, with_ended="since=" in query),
        "jobs",
        lambda answer: _check_jobs(answer["jobs"], format),
    ).checked()
    accounts, duplicates = merged_accounts({name: answer["jobs"] for name, answer in answers.documents.items()})
    accounts.sort(key=lambda account: account["begin"], reverse=True)
    accounts.sort(key=lambda account: account["end"] or "~", reverse=True)
    if format == "json":
        sys.stdout.write(_json(accounts))
        return
    sys.stdout.write(job_table(accounts, with_findings=with_findings))
    sys.stdout.writelines(answers.missing_lines())
    sys.stdout.writelines(clean_lines(f"duplicate: {each}") for each in duplicates)


def _account(clients: Clients, id: str) -> Document:
    """Return the account of a job over all nodes."""
    path = f"/jobs/{quote(id, safe='/:')}"
    accounts, errors = _all_answers(clients, lambda _, get: get(path), "gpus", _check_account)
    if not accounts:
        raise _error(id, clients, list(errors.values()))
    newest = max(accounts.values(), key=lambda account: account["begin"])
    parts = {node: account for node, account in accounts.items() if is_same_job(account, newest)}
    if len(clients) == 1:
        return newest
    missing = [{"node": node, "reason": _reason(errors.get(node))} for node in clients if node not in parts]
    return merged_account([newest, *(account for account in parts.values() if account is not newest)], missing)


def _error(id: str, clients: Clients, errors: Sequence[PulsedError]) -> PulsedError:
    """Return the error of a job that no daemon has: the first one that is not a 404, or `no such job`."""
    other = next((each for each in errors if not (isinstance(each, RequestRefused) and each.status == 404)), None)
    where = next(iter(clients.values())).address if len(clients) == 1 else f"{len(clients)} nodes"
    names = [name for each in errors if isinstance(each, RequestRefused) for name in _nearest(each.text)]
    nearest = f"the nearest names are {', '.join(get_close_matches(id, dict.fromkeys(names)))}; " if names else ""
    return other or JobNotFound(f"{where}: there is no job {id!r}", f"{nearest}`pulsed job` lists all")


def _nearest(body: str) -> list[str]:
    """Return the names in the answer of a daemon that does not have a job."""
    try:
        names = json.loads(body)["nearest"]
    except (ValueError, LookupError, TypeError):  # of an older daemon
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


def _reason(error: PulsedError | None) -> str:
    if isinstance(error, RequestRefused) and error.status == 404:
        return "has no such job"
    return "has an older job with this id" if error is None else str(error.args[0])


def _json(document: Document | list[Document]) -> str:
    return json.dumps(document, indent=2) + "\n"


_FORMATS: Mapping[str, Callable[[Document], str]] = {"text": job_report, "json": _json, "line": job_line}


REQUESTS = 64
"""Concurrent requests."""

Get = Callable[[str], Document]
"""Returns the document of a path."""


class DaemonAnswers(NamedTuple):
    """The documents of the daemons that answered, and the errors of the others, by node."""

    documents: Mapping[str, Document]
    errors: Mapping[str, PulsedError]

    @property
    def missing(self) -> list[dict[str, str]]:
        """`node` and `reason` of each that did not answer."""
        return [{"node": node, "reason": str(error.args[0])} for node, error in self.errors.items()]

    def missing_lines(self) -> list[str]:
        """Return a line of text for each that did not answer."""
        return [clean_lines(f"missing: {each['node']}: {each['reason']}") for each in self.missing]

    def checked(self) -> DaemonAnswers:
        """Return these answers.

        Raises:
            DaemonUnreachable, RequestRefused: no daemon answered.
        """
        if not self.documents:
            raise next(iter(self.errors.values()))
        return self


def _check_report(report: Document, options: argparse.Namespace) -> None:
    """Render the report of one daemon."""
    merged = merged_usage({"": report}, LABELS[options.by])
    usage = {"by": options.by, "seconds": options.since, "rows": merged.rows, "worst": merged.worst}
    usage_table(usage)
    usage_csv(usage)


def _check_account(account: Document) -> None:
    """Render the account of one daemon."""
    for render in _FORMATS.values():
        render(account)


def _check_jobs(accounts: list[Document], format: str) -> None:
    """Render the jobs of one daemon."""
    job_table(accounts, with_findings=True)
    sorted(f"{account['begin']}{account['end']}" for account in accounts)
    if format == "json":
        _json(accounts)


def _all_answers(
    clients: Clients, request: Callable[[DaemonClient, Get], Document], has: str, check: Callable[[Document], object]
) -> DaemonAnswers:
    """Return what is requested of each daemon, or its error.

    Args:
        clients: by node.
        request: gets a client and a function of paths.
        has: a member that every document has, unless the daemon is something else.
        check: renders a document: what fails there is an error of this daemon alone.
    """

    def answer(client: DaemonClient) -> Document | PulsedError:
        def get(path: str) -> Document:
            document: Document = client.json(path)
            if not isinstance(document, dict) or has not in document:
                raise DaemonUnreachable(f"{client.address}{path}: the answer has no {has}", "Check that it is a pulsed")
            return document

        try:
            document = request(client, get)
        except (DaemonUnreachable, RequestRefused) as error:
            return error
        try:
            check(document)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            text = f"{client.address}: a row is not one of pulsed ({type(error).__name__}: {clean(str(error))})"
            return OddAnswer(text, "Check that the URL is of a pulsed, and its version")
        return document

    with ThreadPoolExecutor(max_workers=min(REQUESTS, len(clients))) as pool:
        answers = dict(zip(clients, pool.map(answer, clients.values()), strict=True))
    return DaemonAnswers(
        {node: each for node, each in answers.items() if not isinstance(each, PulsedError)},
        {node: each for node, each in answers.items() if isinstance(each, PulsedError)},
    )
