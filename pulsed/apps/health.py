"""`pulsed health`: problems of the GPUs with their remedies, and an exit code for schedulers and monitors."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO
from urllib.parse import urlencode

from pulsed.apps.daemon_client import (
    DaemonClient,
    DaemonUnreachable,
    RequestRefused,
    client_settings,
    clients_of,
)
from pulsed.errors import HealthUsageError, PulsedError, UsageError
from pulsed.present.asgi import FORGET
from pulsed.present.health_report import UNKNOWN, Row, exit_code_of, health_line, health_table
from pulsed.printable import clean, clean_lines

PATH = "/health/gpus"


class HealthUnavailable(PulsedError):
    """The only daemon did not answer, so the health is unknown."""

    exit_code = UNKNOWN


class NotForgotten(PulsedError):
    """A daemon did not forget a GPU."""


def run(options: argparse.Namespace) -> int:
    """Print the health, or forget a GPU; return the exit code."""
    try:
        clients = list(clients_of(options.urls, options.nodes, client_settings(options)).values())
    except UsageError as error:
        raise HealthUsageError(f"health: {error.args[0]}", error.remedy) from None
    if options.forget is not None:
        if len(clients) > 1:
            options.parser.error("--forget needs one URL")
        forget(clients[0], options.forget, options.node, sys.stdout)
        return 0
    if options.node is not None:
        options.parser.error("--node needs --forget")
    return health(clients, options.format, sys.stdout, options.require_coverage)


def health(clients: Sequence[DaemonClient], format: str, out: TextIO, require_coverage: float = 0.0) -> int:
    """Print the health of all GPUs of one or several daemons; return the exit code.

    Args:
        clients: of the daemons. If there are several, one without an answer is an unknown row.
        format: `table`, `json`, or `line`: one line with performance data, for Nagios.
        out: where to print.
        require_coverage: share of the checks of each GPU that must be known, 0..1.

    Raises:
        HealthUnavailable: the only daemon did not answer, or the certificates cannot be read.
    """
    rows = [row for client in clients for row in _rows_of(client, is_only=len(clients) == 1)]
    with contextlib.suppress(BrokenPipeError):  # a reader that has read enough changes no state
        out.write(_FORMATS[format](rows, require_coverage))
        out.flush()
    return exit_code_of(rows, require_coverage)


def _rows_of(client: DaemonClient, *, is_only: bool) -> list[Row]:
    """Return the rows of a daemon; one of several that did not answer is one unknown row."""
    try:
        return _fetch(client)
    except (DaemonUnreachable, RequestRefused) as error:
        if is_only:
            raise HealthUnavailable(error.args[0], error.remedy) from None
        return [_unreachable_row(client, error)]


def _fetch(client: DaemonClient) -> list[Row]:
    """Return the GPUs and targets of a daemon as `/health/gpus` has them."""
    checks = client.json(PATH)
    if not isinstance(checks, list):
        raise DaemonUnreachable(
            f"{client.address}{PATH}: the answer is not a list", "Check that the URL is of a pulsed"
        )
    try:
        health_table(checks), health_line(checks), exit_code_of(checks)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DaemonUnreachable(
            f"{client.address}{PATH}: a row does not describe a GPU ({type(error).__name__}: {clean(str(error))})",
            "Check that the URL is of a pulsed, and its version",
        ) from None
    return checks


def _unreachable_row(client: DaemonClient, error: PulsedError) -> Row:
    problem = {"id": "daemon", "state": "unknown", "since": None, "message": error.args[0], "remedy": error.remedy}
    return {
        "node": "",
        "gpu": None,
        "uuid": None,
        "mig": None,
        "model": None,
        "target": client.address,
        "stale": True,
        "state": "unknown",
        "severity": -1,
        "coverage": 0.0,
        "last_reset": None,
        "problems": [problem],
    }


def forget(client: DaemonClient, gpu: str, node: str | None, out: TextIO) -> None:
    """Have a daemon forget an absent GPU.

    Args:
        client: of the daemon.
        gpu: UUID or index of the GPU.
        node: its host, if several have such a GPU.
        out: where to print what was forgotten.

    Raises:
        NotForgotten: the daemon refused; the message has its reason.
        HealthUnavailable: the daemon did not answer.
    """
    query = urlencode({"gpu": gpu} | ({} if node is None else {"node": node}))
    try:
        answer = client.request(f"{FORGET}?{query}", "POST")
    except DaemonUnreachable as error:
        raise HealthUnavailable(error.args[0], error.remedy) from None
    except RequestRefused as error:
        text = error.text if error.status in (400, 403, 404, 409) else ""
        raise NotForgotten(text or error.args[0], "" if text else error.remedy) from None
    out.write(clean_lines(answer.decode("utf-8", "replace")))


def _json(rows: Sequence[Row], require_coverage: float) -> str:
    return json.dumps(rows, indent=2) + "\n"


_FORMATS: Mapping[str, Callable[[Sequence[Row], float], str]] = {
    "table": health_table,
    "json": _json,
    "line": health_line,
}
