"""`pulsed jobs`: the jobs and pods of running daemons in a table, with what is wrong with each."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import TextIO
from urllib.parse import urlencode

from pulsed.apps.daemon_client import DaemonClient, all_since, client_settings, clients_of, with_all_running
from pulsed.apps.many_daemons import all_answers
from pulsed.present.job_table import job_table
from pulsed.printable import clean_lines

_FILTERS = ("state", "user", "account", "namespace")


def run(options: argparse.Namespace) -> int:
    """Print the list; return the exit code."""
    filters = {name: value for name in _FILTERS if (value := getattr(options, name))}
    if options.since is not None:
        filters["since"] = f"{time.time() - options.since:.0f}"
    clients = clients_of(options.urls, options.nodes, client_settings(options))
    jobs(clients, options.format, sys.stdout, urlencode(filters), with_findings=options.diagnose)
    return 0


def jobs(
    clients: Mapping[str, DaemonClient], format: str, out: TextIO, filters: str = "", *, with_findings: bool = False
) -> None:
    """Print the jobs of some daemons, running ones first.

    Args:
        clients: by node.
        format: `text`, or `json`: a list of accounts.
        filters: parameters of `/jobs`; with `since`, all that match are read.
        with_findings: whether each has the first advice of its report.

    Raises:
        DaemonUnreachable: no daemon answered, or the only one did not.
        RequestRefused: no daemon answered without an error.
    """
    query = f"&{filters}" if filters else ""
    read = all_since if "since=" in query else with_all_running
    answers = all_answers(clients, lambda get: read(get, query), has="jobs").checked()
    accounts = [account for answer in answers.documents.values() for account in answer["jobs"]]
    accounts.sort(key=lambda account: account["begin"], reverse=True)
    accounts.sort(key=lambda account: account["end"] or "~", reverse=True)
    if format == "json":
        out.write(json.dumps(accounts, indent=2) + "\n")
        return
    out.write(job_table(accounts, with_findings=with_findings))
    for each in answers.missing:
        out.write(clean_lines(f"missing: {each['node']}: {each['reason']}"))
