"""`pulsed health`: problems of the GPUs with their remedies, and an exit code for schedulers and monitors.

The state comes from a running daemon: latched states, rates and lost GPUs need its history.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import HTTPSHandler, Request, build_opener

from pulsed.compute.health.model import SEVERITY, STATES, State
from pulsed.errors import PulsedError

PATH = "/health/gpus"

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
"""The exit codes: those of Nagios' plugins."""

_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")

Row = Mapping[str, Any]
"""One GPU, or a target without any."""


class DaemonUnreachable(PulsedError):
    """No daemon answered, so the health is unknown."""

    exit_code = UNKNOWN


def health(urls: Sequence[str], format: str, out: TextIO, *, timeout: float = 10.0, ca_file: str | None = None) -> int:
    """Print the health of all GPUs of one or several daemons; return the exit code.

    Args:
        urls: of the daemons; a login in one is used. If there are several, one without an answer is an unknown row.
        format: `table`, `json`, or `line`: one line with performance data, for Nagios.
        out: where to print.
        timeout: of each request, in seconds.
        ca_file: certificates to trust, for https.

    Raises:
        DaemonUnreachable: the only daemon did not answer, or the certificates cannot be read.
    """
    if len(urls) == 1:
        rows = fetch(urls[0], timeout=timeout, ca_file=ca_file)
    else:
        rows = [row for url in urls for row in _fetch_or_unknown(url, timeout, ca_file)]
    out.write(_FORMATS[format](rows))
    return exit_code_of(rows)


def exit_code_of(rows: Sequence[Row]) -> int:
    """Return the exit code: the worst of critical and warning, else unknown if any GPU or target is, else ok."""
    worst = max((SEVERITY[_state(row)] for row in rows), default=SEVERITY["unknown"])
    if worst >= SEVERITY["warn"]:
        return CRITICAL if worst == SEVERITY["crit"] else WARNING
    return UNKNOWN if not rows or any(_state(row) == "unknown" for row in rows) else OK


def _state(row: Row) -> State:
    """Return the state of a row; a stale one that was not raised is unknown."""
    state: State = row["state"]
    return "unknown" if row["stale"] and SEVERITY[state] < SEVERITY["warn"] else state


def _fetch_or_unknown(url: str, timeout: float, ca_file: str | None) -> list[Row]:
    """Return the rows of a daemon; one that did not answer is one unknown row."""
    try:
        return fetch(url, timeout=timeout, ca_file=ca_file)
    except DaemonUnreachable as error:
        return [_unreachable(url, error)]


def _unreachable(url: str, error: DaemonUnreachable) -> Row:
    problem = {"id": "daemon", "state": "unknown", "since": None, "message": error.args[0], "remedy": error.remedy}
    return {
        "node": "",
        "gpu": None,
        "uuid": None,
        "mig": None,
        "model": None,
        "target": _address(_split(url)),
        "stale": True,
        "state": "unknown",
        "severity": -1,
        "coverage": 0.0,
        "problems": [problem],
    }


def fetch(url: str, *, timeout: float, ca_file: str | None) -> list[Row]:
    """Return the GPUs and targets of the daemon as `/health/gpus` has them.

    Raises `DaemonUnreachable` if the daemon did not answer, or the certificates cannot be read.
    """
    parts = _split(url)
    where = _address(parts) + PATH
    try:
        trust = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise DaemonUnreachable(
            f"cannot use the certificates of {ca_file}: {error}", "Name a file in PEM format"
        ) from None
    try:
        request = Request(where, headers=_login(parts))
        with build_opener(HTTPSHandler(context=trust)).open(request, timeout=timeout) as answer:
            found = json.load(answer)
        if not isinstance(found, list):
            raise ValueError("the answer is not a list")
    except HTTPError as error:
        raise DaemonUnreachable(
            f"{where} answered {error.code}", "Check that the URL is of a pulsed, and the login"
        ) from None
    except URLError as error:
        raise DaemonUnreachable(
            f"cannot reach {where}: {error.reason}", "Check that `pulsed serve` runs there"
        ) from None
    except (OSError, ValueError) as error:
        raise DaemonUnreachable(f"{where}: {error}", "Check that `pulsed serve` runs there") from None
    return found


def _split(url: str) -> SplitResult:
    return urlsplit(url if "://" in url else f"http://{url}")


def _address(parts: SplitResult) -> str:
    """Return the URL without its login."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _login(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _table(rows: Sequence[Row]) -> str:
    lines = [f"{_WORDS[exit_code_of(rows)]}: {_summary(rows)}"]
    for row in rows:
        for problem in row["problems"]:
            lines += [
                "",
                f"{_name(row)}  {problem['state'].upper()}  {problem['id']}"
                + (f"  since {problem['since']}" if problem["since"] else ""),
                f"  {_plain(problem['message'])}",
                f"  -> {_plain(problem['remedy'])}",
            ]
    lines += ["", *(_verdict(row) for row in rows)]
    return "\n".join(lines).rstrip() + "\n"


def _verdict(row: Row) -> str:
    return f"{_name(row)}  {_state(row)}  ({'stale: ' if row['stale'] else ''}{_percent(row['coverage'])})"


def _line(rows: Sequence[Row]) -> str:
    """Return one line in the format of Nagios plugins: state, problems, performance data."""
    wrong = [f"{_name(row)} {each['state']}: {each['id']}" for row in rows for each in row["problems"]]
    numbers = " ".join(f"{state}={_count(rows, state)}" for state in reversed(STATES))
    summary = "; ".join([*wrong, _summary(rows)]).replace("|", "/")
    gpus = sum(row["gpu"] is not None for row in rows)
    return f"PULSED {_WORDS[exit_code_of(rows)]} - {summary} | gpus={gpus} {numbers} coverage={_coverage(rows)}%\n"


def _json(rows: Sequence[Row]) -> str:
    return json.dumps(rows, indent=2) + "\n"


_FORMATS: Mapping[str, Callable[[Sequence[Row]], str]] = {"table": _table, "json": _json, "line": _line}


def _name(row: Row) -> str:
    if row["gpu"] is None:
        return _plain(row["target"])
    return _plain(f"{row['node']} GPU {row['gpu'] or row['uuid']}" + (f":{row['mig']['id']}" if row["mig"] else ""))


def _summary(rows: Sequence[Row]) -> str:
    """Return the number of rows by state, and how much was evaluated."""
    if not rows:
        return "no GPUs"
    counts = [f"{number} {state}" for state in reversed(STATES) if (number := _count(rows, state))]
    silent = sum(row["gpu"] is None for row in rows)
    targets = f"; {silent} without data" if silent else ""
    return f"{', '.join(counts)} ({_percent(_coverage(rows) / 100)}{targets})"


def _count(rows: Sequence[Row], state: str) -> int:
    return sum(_state(row) == state for row in rows)


def _coverage(rows: Sequence[Row]) -> int:
    """Return the mean coverage in percent; a target without data counts as 0."""
    return round(100 * sum(row["coverage"] for row in rows) / len(rows)) if rows else 0


def _percent(coverage: float) -> str:
    return f"{100 * coverage:.0f} % of the checks have data"


def _plain(text: str) -> str:
    """Return a text without control characters: names come from elsewhere, and this goes to a terminal."""
    return "".join(letter for letter in text if letter.isprintable())
