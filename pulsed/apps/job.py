"""`pulsed job`: the jobs and pods of running daemons, and the report of one of them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO
from urllib.parse import quote

from pulsed.apps.daemon_client import (
    DaemonClient,
    DaemonUnreachable,
    RequestRefused,
    client_settings,
    clients_of,
    is_url,
    with_all_running,
)
from pulsed.errors import PulsedError
from pulsed.present.account_totals import is_same_job, merged_account
from pulsed.present.job_comparison import compared_jobs, comparison_report
from pulsed.present.job_line import job_line
from pulsed.present.job_report import job_report
from pulsed.present.job_table import job_table
from pulsed.present.jobstats_blob import with_gpus
from pulsed.printable import clean_lines

REQUESTS = 64
"""Concurrent requests."""

Document = dict[str, Any]


class JobNotFound(PulsedError):
    """No daemon has an account of the job."""


def run(options: argparse.Namespace) -> int:
    """Print the list, or the report of one job; return the exit code."""
    id, urls = options.id, options.urls
    if id is not None and is_url(id):
        id, urls = None, [id, *urls]
        options.urls = urls
    clients = clients_of(urls, options.nodes, client_settings(options))
    if options.compare and (id is not None or options.format not in ("text", "json")):
        options.parser.error("--compare takes two IDs, no other, and --format text or json")
    if options.compare:
        compare(clients, options.compare, options.format, sys.stdout)
    elif id is not None:
        job(clients, id, options.format, sys.stdout, sys.stdin)
    elif options.format in ("text", "json"):
        jobs(clients, options.format, sys.stdout)
    else:
        options.parser.error(f"--format {options.format} needs an ID")
    return 0


def jobs(clients: Mapping[str, DaemonClient], format: str, out: TextIO) -> None:
    """Print the jobs of some daemons, running ones first.

    Args:
        clients: by node.
        format: `text`, or `json`: a list of accounts.

    Raises:
        DaemonUnreachable: no daemon answered, or the only one did not.
        RequestRefused: no daemon answered without an error.
    """
    answers = _request_all(clients, with_all_running)
    accounts = [
        account for answer in answers.values() if not isinstance(answer, PulsedError) for account in answer["jobs"]
    ]
    failed = {node: answer for node, answer in answers.items() if isinstance(answer, PulsedError)}
    if len(failed) == len(answers):
        raise next(iter(failed.values()))
    accounts.sort(key=lambda account: account["begin"], reverse=True)
    accounts.sort(key=lambda account: account["end"] or "~", reverse=True)
    if format == "json":
        out.write(json.dumps(accounts, indent=2) + "\n")
        return
    out.write(job_table(accounts))
    for node, error in failed.items():
        out.write(clean_lines(f"missing: {node}: {error.args[0]}"))


def job(clients: Mapping[str, DaemonClient], id: str, format: str, out: TextIO, given: TextIO) -> None:
    """Print what a job got out of its GPUs.

    Args:
        clients: by node.
        id: as in `/jobs/{id}`; if it was used several times, the newest is printed.
        format: `text`, `json`, `line`, or `js1`: the summary of jobstats that is read from `given`, with GPUs added.

    Raises:
        NotJobstatsSummary: there is no such summary.
        JobNotFound: no daemon has it.
        DaemonUnreachable: no daemon answered.
        RequestRefused: no daemon answered without an error.
    """
    account = _account(clients, id)
    out.write(with_gpus(given.read(), account) + "\n" if format == "js1" else _FORMATS[format](account))


def compare(clients: Mapping[str, DaemonClient], ids: Sequence[str], format: str, out: TextIO) -> None:
    """Print two jobs side by side; errors are those of `job`."""
    first, second = (_account(clients, id) for id in ids)
    out.write(_json(compared_jobs(first, second)) if format == "json" else comparison_report(first, second))


def _account(clients: Mapping[str, DaemonClient], id: str) -> Document:
    """Return the account of a job over all nodes."""
    path = f"/jobs/{quote(id, safe='/:')}"
    answers = _request_all(clients, lambda request: request(path))
    found = {node: answer for node, answer in answers.items() if not isinstance(answer, PulsedError)}
    if not found:
        raise _error(id, clients, [answer for answer in answers.values() if isinstance(answer, PulsedError)])
    newest = max(found.values(), key=lambda account: account["begin"])
    parts = {node: account for node, account in found.items() if is_same_job(account, newest)}
    if len(clients) == 1:
        return newest
    missing = [{"node": node, "reason": _reason(answers[node])} for node in clients if node not in parts]
    return merged_account([newest, *(account for account in parts.values() if account is not newest)], missing)


def _error(id: str, clients: Mapping[str, DaemonClient], errors: Sequence[PulsedError]) -> PulsedError:
    """Return the error of a job that no daemon has: the first that is not a 404, or that there is no such job."""
    other = next((each for each in errors if not (isinstance(each, RequestRefused) and each.status == 404)), None)
    where = next(iter(clients.values())).address if len(clients) == 1 else f"{len(clients)} nodes"
    return other or JobNotFound(f"{where}: there is no job {id!r}", "`pulsed job` lists all")


def _reason(answer: Document | PulsedError) -> str:
    if isinstance(answer, RequestRefused) and answer.status == 404:
        return "has no such job"
    return str(answer.args[0]) if isinstance(answer, PulsedError) else "has an older job with this id"


def _request_all(
    clients: Mapping[str, DaemonClient], request: Callable[[Callable[[str], Document]], Document]
) -> Mapping[str, Document | PulsedError]:
    """Return what is requested of each daemon, or its error, by node; `request` gets a function of paths."""

    def answer(client: DaemonClient) -> Document | PulsedError:
        def ask(path: str) -> Document:
            found: Document = client.json(path)
            if not isinstance(found, dict) or not found.keys() & {"jobs", "gpus"}:
                raise DaemonUnreachable(f"{client.address}{path}: the answer has no jobs", "Check that it is a pulsed")
            return found

        try:
            return request(ask)
        except (DaemonUnreachable, RequestRefused) as error:
            return error

    with ThreadPoolExecutor(max_workers=min(REQUESTS, len(clients))) as pool:
        return dict(zip(clients, pool.map(answer, clients.values()), strict=True))


def _json(account: Document) -> str:
    return json.dumps(account, indent=2) + "\n"


_FORMATS: Mapping[str, Callable[[Document], str]] = {"text": job_report, "json": _json, "line": job_line}
