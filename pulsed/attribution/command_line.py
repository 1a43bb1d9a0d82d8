"""Command lines without secrets. This module does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

MAX_TEXT = 256
"""Longer command lines are cut."""

_SECRET = "token|secret|passw|pwd|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth|bearer|cookie"
_NAMED = re.compile(rf"([^=:\s]*(?:{_SECRET})[^=:\s]*\s*[=:]\s*).+", re.IGNORECASE | re.DOTALL)
_OPTION = re.compile(rf"-[^=\s]*(?:{_SECRET})[^=\s]*|-p|-u", re.IGNORECASE)
_HEADER = re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/\s@]+@")
_KNOWN = re.compile(r"\b(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[abp]-|AKIA|eyJ)[A-Za-z0-9_.=-]{8,}")


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
            text = _NAMED.sub(r"\1***", argument)
            text = _HEADER.sub(r"\1 ***", text)
            yield _KNOWN.sub("***", _LOGIN.sub("://***@", text))
        is_value = _OPTION.fullmatch(argument) is not None
