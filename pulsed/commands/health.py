"""`pulsed health`: what is wrong with the GPUs and what to do, with an exit code for schedulers and monitors.

It asks a running daemon: latches, rates and losses need a memory, which a look from outside does not have.
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


class NoAnswer(PulsedError):
    """No daemon could be asked, so that nothing is known."""

    exit_code = UNKNOWN


def checkup(url: str, format: str, out: TextIO, *, timeout: float = 10.0, ca_file: str | None = None) -> int:
    """Print the health of all GPUs that a daemon knows; returns the exit code.

    Args:
        url: of the daemon; a login in it is used.
        format: `table` for people, `json`, or `line`: one line with performance data, for Nagios and its like.
        out: where to print.
        timeout: seconds that the daemon has to answer.
        ca_file: certificates to trust, for https.

    Raises:
        NoAnswer: the daemon did not answer, or the certificates cannot be used.
    """
    gpus = ask(url, timeout=timeout, ca_file=ca_file)
    out.write(_FORMATS[format](gpus))
    return verdict(gpus)


def verdict(gpus: Sequence[Gpu]) -> int:
    """Sum up: critical if any GPU is, else a warning, else unknown if anything is, and only then fine."""
    worst = max((gpu["severity"] for gpu in gpus), default=SEVERITY["unknown"])
    if worst >= SEVERITY["warn"]:
        return CRITICAL if worst == SEVERITY["crit"] else WARNING
    return UNKNOWN if not gpus or any(gpu["severity"] < 0 for gpu in gpus) else OK


def ask(url: str, *, timeout: float, ca_file: str | None) -> list[Gpu]:
    """Get the list of GPUs.

    Raises:
        NoAnswer: the daemon did not answer, or the certificates cannot be used.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}{PATH}"
    try:
        trust = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise NoAnswer(f"cannot use the certificates of {ca_file}: {error}", "Name a file in PEM format") from None
    try:
        request = Request(where, headers=_login(parts))
        with build_opener(HTTPSHandler(context=trust)).open(request, timeout=timeout) as answer:
            found = json.load(answer)
        if not isinstance(found, list):
            raise ValueError("the answer is no list")
    except HTTPError as error:
        raise NoAnswer(f"{where} answered {error.code}", "Is that a pulsed, and is the login right?") from None
    except URLError as error:
        raise NoAnswer(f"cannot reach {where}: {error.reason}", "See whether `pulsed serve` runs there") from None
    except (OSError, ValueError) as error:
        raise NoAnswer(f"{where}: {error}", "See whether `pulsed serve` runs there") from None
    return found


def _login(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _table(gpus: Sequence[Gpu]) -> str:
    lines = [f"{_WORDS[verdict(gpus)]}: {_counts(gpus) or 'no GPU is known'}"]
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
    judged = f"{100 * gpu['coverage']:.0f} % of the checks could be judged"
    return f"{_name(gpu)}  {gpu['state']}  ({'stale: ' if gpu['stale'] else ''}{judged})"


def _line(gpus: Sequence[Gpu]) -> str:
    """Write one line as Nagios wants it: verdict, what is wrong, then numbers."""
    wrong = [f"{_name(gpu)} {each['state']}: {each['id']}" for gpu in gpus for each in gpu["problems"]]
    numbers = " ".join(f"{state}={_count(gpus, state)}" for state in reversed(STATES))
    said = "; ".join(wrong) or _counts(gpus) or "no GPU is known"
    return f"PULSED {_WORDS[verdict(gpus)]} - {said.replace('|', '/')} | gpus={len(gpus)} {numbers}\n"


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
    """Leave out control characters: names come from elsewhere, and this goes to a terminal."""
    return "".join(letter for letter in text if letter.isprintable())
