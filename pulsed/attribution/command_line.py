"""Command lines without secrets. This module does no I/O.

The arguments are those of any user of the host: the time to mask them grows linearly with their length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MAX_BYTES = 4096
"""Most bytes of a command line to read."""

MAX_TEXT = 256
"""Longer results are cut."""

_SECRET = re.compile(
    "token|secret|passw|pwd|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth|bearer|cookie", re.IGNORECASE
)
_SEPARATOR = re.compile("[=:]")
_HEADER = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/\s]+@")
_KNOWN = re.compile(r"\b(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|eyJ)[A-Za-z0-9_.=-]{8,}")


def arguments_of(content: bytes) -> list[str]:
    """Return the arguments in the content of /proc/PID/cmdline, of which `MAX_BYTES` count.

    Programs that set their title separate words by spaces (psutil#1179). If the content is longer, its last word is
    left out: half a secret cannot be recognized.
    """
    text = content[:MAX_BYTES].decode("utf-8", "replace").rstrip("\0")
    if len(content) > MAX_BYTES:
        text = text[: max(text.rfind("\0"), text.rfind(" "), 0)]
    return text.split("\0" if "\0" in text else " ") if text else []


def masked_command(arguments: Iterable[str]) -> str:
    """Return a command line with `***` for what looks like a secret: values of options and variables with such names,
    logins in URLs, headers, and tokens of well-known services."""
    return " ".join(_masked(arguments))[:MAX_TEXT]


def _masked(arguments: Iterable[str]) -> Iterator[str]:
    is_value = False
    for argument in arguments:
        if is_value and not argument.startswith("-"):
            yield "***"
        else:
            text = _HEADER.sub(r"\1 ***", _without_named_secret(argument))
            yield _KNOWN.sub("***", _LOGIN.sub("://***@", text))
        is_value = argument in ("-p", "-u") or _is_secret_option(argument)


def _without_named_secret(text: str) -> str:
    """Return a text up to the first `=` or `:` behind the name of a secret; what follows is masked."""
    start = 0
    for separator in _SEPARATOR.finditer(text):
        words = text[start : separator.start()].split()
        if words and _SECRET.search(words[-1]):
            value = text[separator.end() :].lstrip()
            return f"{text[: len(text) - len(value)]}***" if value else text
        start = separator.end()
    return text


def _is_secret_option(argument: str) -> bool:
    """Return whether the value of an option is the next argument, and a secret."""
    is_option = argument.startswith("-") and "=" not in argument and len(argument.split()) == 1
    return is_option and _SECRET.search(argument) is not None
