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

from pulsed.compute.health.model import SEVERITY, STATES
from pulsed.errors import PulsedError

PATH = "/health/gpus"

OK, WARNING, CRITICAL, UNKNOWN = 0, 1, 2, 3
"""The exit codes: those of Nagios' plugins."""

_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")

Gpu = Mapping[str, Any]


class DaemonUnreachable(PulsedError):
    """No daemon answered, so the health is unknown."""

    exit_code = UNKNOWN


def health(url: str, format: str, out: TextIO, *, timeout: float = 10.0, ca_file: str | None = None) -> int:
    """Print the health of all GPUs of a daemon; return the exit code.

    Args:
        url: of the daemon; a login in it is used.
        format: `table`, `json`, or `line`: one line with performance data, for Nagios.
        timeout: of the request, in seconds.
        ca_file: certificates to trust, for https.

    Raises `DaemonUnreachable` if the daemon did not answer, or the certificates cannot be read.
    """
    gpus = fetch(url, timeout=timeout, ca_file=ca_file)
    out.write(_FORMATS[format](gpus))
    return exit_code_of(gpus)


def exit_code_of(gpus: Sequence[Gpu]) -> int:
    """Return the exit code: the worst of critical and warning, else unknown if any GPU is, else ok."""
    worst = max((gpu["severity"] for gpu in gpus), default=SEVERITY["unknown"])
    if worst >= SEVERITY["warn"]:
        return CRITICAL if worst == SEVERITY["crit"] else WARNING
    return UNKNOWN if not gpus or any(gpu["severity"] < 0 for gpu in gpus) else OK


def fetch(url: str, *, timeout: float, ca_file: str | None) -> list[Gpu]:
    """Return the GPUs of the daemon as `/health/gpus` has them.

    Raises `DaemonUnreachable` if the daemon did not answer, or the certificates cannot be read.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{PATH}"
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


def _login(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _table(gpus: Sequence[Gpu]) -> str:
    lines = [f"{_WORDS[exit_code_of(gpus)]}: {_counts(gpus) or 'no GPUs'}"]
    for gpu in gpus:
        for problem in gpu["problems"]:
            lines += [
                "",
                f"{_name(gpu)}  {problem['state'].upper()}  {problem['id']}"
                + (f"  since {problem['since']}" if problem["since"] else ""),
                f"  {_plain(problem['message'])}",
                f"  -> {_plain(problem['remedy'])}",
            ]
    lines += ["", *(_plain_line(gpu) for gpu in gpus if not gpu["problems"])]
    return "\n".join(lines).rstrip() + "\n"


def _plain_line(gpu: Gpu) -> str:
    coverage = f"{100 * gpu['coverage']:.0f} % of the checks have data"
    return f"{_name(gpu)}  {gpu['state']}  ({'stale: ' if gpu['stale'] else ''}{coverage})"


def _line(gpus: Sequence[Gpu]) -> str:
    """Return one line in the format of Nagios plugins: state, problems, performance data."""
    wrong = [f"{_name(gpu)} {each['state']}: {each['id']}" for gpu in gpus for each in gpu["problems"]]
    numbers = " ".join(f"{state}={_count(gpus, state)}" for state in reversed(STATES))
    summary = "; ".join(wrong) or _counts(gpus) or "no GPUs"
    return f"PULSED {_WORDS[exit_code_of(gpus)]} - {summary.replace('|', '/')} | gpus={len(gpus)} {numbers}\n"


def _json(gpus: Sequence[Gpu]) -> str:
    return json.dumps(gpus, indent=2) + "\n"


_FORMATS: Mapping[str, Callable[[Sequence[Gpu]], str]] = {"table": _table, "json": _json, "line": _line}


def _name(gpu: Gpu) -> str:
    return _plain(f"{gpu['node']} GPU {gpu['gpu'] or gpu['uuid']}" + (f":{gpu['mig']['id']}" if gpu["mig"] else ""))


def _count(gpus: Sequence[Gpu], state: str) -> int:
    return sum(gpu["state"] == state for gpu in gpus)


def _counts(gpus: Sequence[Gpu]) -> str:
    return ", ".join(f"{number} {state}" for state in reversed(STATES) if (number := _count(gpus, state)))


def _plain(text: str) -> str:
    """Return a text without control characters: names come from elsewhere, and this goes to a terminal."""
    return "".join(letter for letter in text if letter.isprintable())
