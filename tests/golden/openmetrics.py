"""Derivation of an OpenMetrics 1.0.0 page from a page in text format 0.0.4.

Does not import `pulsed`, so one expected page is an independent check of both formats.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"# (HELP|TYPE) (\S+) (.*)\n")


def openmetrics_of(text: str) -> str:
    """Return the OpenMetrics page with the same samples."""
    types = {match[2]: _type(match[2], match[3]) for match in _COMMENT.finditer(text) if match[1] == "TYPE"}

    def comment(match: re.Match[str]) -> str:
        keyword, name, rest = match.groups()
        suffix = {"counter": "_total", "info": "_info"}.get(types[name], "")
        rest = types[name] if keyword == "TYPE" else rest.replace('"', r"\"")
        family = name.removesuffix(suffix)
        unit = re.search(r"_(seconds|bytes|celsius|joules|watts|volts|hertz|ratio)$", family)
        measured = f"# UNIT {family} {unit[1]}\n" if unit and keyword == "TYPE" else ""
        return f"# {keyword} {family} {rest}\n{measured}"

    return _COMMENT.sub(comment, text) + "# EOF\n"


def _type(name: str, declared: str) -> str:
    """Return the OpenMetrics type: text has neither info nor unknown, and counters without `_total`."""
    if declared == "gauge" and name.startswith("pulsed_") and name.endswith("_info"):
        return "info"
    if declared == "untyped" or (declared == "counter" and not name.endswith("_total")):
        return "unknown"
    return declared
