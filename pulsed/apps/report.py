"""`pulsed report`: who used how many GPU hours, over all daemons that are named."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from pulsed.apps.daemon_client import DaemonClient, client_settings, clients_of
from pulsed.apps.many_daemons import all_answers
from pulsed.present.usage import LABELS, WORST, GroupBy, merged_jobs, merged_rows, usage_csv, usage_table
from pulsed.printable import clean_lines


def run(options: argparse.Namespace) -> int:
    """Print the report; return the exit code."""
    clients = clients_of(options.urls, options.nodes, client_settings(options))
    report(clients, options.since, options.by, options.format, sys.stdout, sys.stderr)
    return 0


def report(
    clients: Mapping[str, DaemonClient], seconds: float, by: GroupBy, format: str, out: TextIO, errors: TextIO
) -> None:
    """Print who used how many GPU hours.

    Args:
        clients: by node.
        seconds: owners that ended earlier than that ago are left out.
        format: `table`, `csv` or `json`.
        errors: gets the nodes that are missing; JSON has them itself.

    Raises:
        DaemonUnreachable: no daemon answered.
        RequestRefused: no daemon answered without an error.
    """
    path = f"/report?by={by}&since={time.time() - seconds:.0f}"
    answers = all_answers(clients, lambda get: get(path), has="rows").checked()
    documents: Mapping[str, Any] = {
        "by": by,
        "seconds": seconds,
        "rows": merged_rows(_all(answers.documents, "rows"), LABELS[by]),
        "worst": merged_jobs(_all(answers.documents, "worst"))[:WORST],
        "missing_nodes": answers.missing,
    }
    if format == "json":
        out.write(json.dumps(documents, indent=2) + "\n")
        return
    out.write(usage_table(documents) if format == "table" else usage_csv(documents))
    for each in answers.missing:
        errors.write(clean_lines(f"missing: {each['node']}: {each['reason']}"))


def _all(documents: Mapping[str, Any], name: str) -> Sequence[Any]:
    return [each for document in documents.values() for each in document[name]]
