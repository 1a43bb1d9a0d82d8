"""`pulsed job`: the jobs and pods of running daemons, and the report of one of them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO
from urllib.parse import quote

from pulsed.apps.daemon_client import DaemonClient, RequestRefused, client_settings, clients_of, is_url
from pulsed.apps.jobs import jobs
from pulsed.apps.many_daemons import all_answers
from pulsed.errors import PulsedError
from pulsed.present.account_totals import is_same_job, merged_account
from pulsed.present.job_comparison import compared_jobs, comparison_report
from pulsed.present.job_line import job_line
from pulsed.present.job_report import job_report
from pulsed.present.jobstats_blob import with_gpus

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


def job(clients: Mapping[str, DaemonClient], id: str, format: str, out: TextIO, summary: TextIO) -> None:
    """Print what a job got out of its GPUs.

    Args:
        clients: by node.
        id: as in `/jobs/{id}`; if it was used several times, the newest is printed.
        format: `text`, `json`, `line`, or `js1`: the summary of jobstats that is read from `summary`, with GPUs added.

    Raises:
        NotJobstatsSummary: there is no such summary.
        JobNotFound: no daemon has it.
        DaemonUnreachable: no daemon answered.
        RequestRefused: no daemon answered without an error.
    """
    account = _account(clients, id)
    out.write(with_gpus(summary.read(), account) + "\n" if format == "js1" else _FORMATS[format](account))


def compare(clients: Mapping[str, DaemonClient], ids: Sequence[str], format: str, out: TextIO) -> None:
    """Print two jobs side by side; errors are those of `job`."""
    first, second = (_account(clients, id) for id in ids)
    out.write(_json(compared_jobs(first, second)) if format == "json" else comparison_report(first, second))


def _account(clients: Mapping[str, DaemonClient], id: str) -> Document:
    """Return the account of a job over all nodes."""
    path = f"/jobs/{quote(id, safe='/:')}"
    accounts, errors = all_answers(clients, lambda get: get(path), has="gpus")
    if not accounts:
        raise _error(id, clients, list(errors.values()))
    newest = max(accounts.values(), key=lambda account: account["begin"])
    parts = {node: account for node, account in accounts.items() if is_same_job(account, newest)}
    if len(clients) == 1:
        return newest
    missing = [{"node": node, "reason": _reason(errors.get(node))} for node in clients if node not in parts]
    return merged_account([newest, *(account for account in parts.values() if account is not newest)], missing)


def _error(id: str, clients: Mapping[str, DaemonClient], errors: Sequence[PulsedError]) -> PulsedError:
    """Return the error of a job that no daemon has: the first one that is not a 404, or `no such job`."""
    other = next((each for each in errors if not (isinstance(each, RequestRefused) and each.status == 404)), None)
    where = next(iter(clients.values())).address if len(clients) == 1 else f"{len(clients)} nodes"
    return other or JobNotFound(f"{where}: there is no job {id!r}", "`pulsed job` lists all")


def _reason(error: PulsedError | None) -> str:
    if isinstance(error, RequestRefused) and error.status == 404:
        return "has no such job"
    return "has an older job with this id" if error is None else str(error.args[0])


def _json(account: Document) -> str:
    return json.dumps(account, indent=2) + "\n"


_FORMATS: Mapping[str, Callable[[Document], str]] = {"text": job_report, "json": _json, "line": job_line}
