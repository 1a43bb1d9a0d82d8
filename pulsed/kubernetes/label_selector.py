"""Label selectors of the Kubernetes API, applied to the labels of an object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Labels = Mapping[str, str]

_SIGN = r"\s*(?P<sign>==|=|!=)(?:\s*(?P<value>[\w.-]+))?"
_SET = r"\s+(?P<set>in|notin)\s*\((?P<values>[\w., -]*)\)"
_TERM = re.compile(rf"\s*(?:(?P<absent>!)\s*(?P<missing>[\w./-]+)|(?P<name>[\w./-]+)(?:{_SIGN}|{_SET})?)\s*(?:,|$)")


def parse_selector(text: str) -> Callable[[Labels], bool]:
    """Return whether labels match a selector such as `app=web,tier in (a, b),!canary`; an empty one matches all.

    Raises:
        ValueError: it is not a selector.
    """
    terms: list[Callable[[Labels], bool]] = []
    at = 0
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None:
            raise ValueError(f"{text!r} is not a label selector")
        terms.append(_term(found))
        at = found.end()
    return lambda labels: all(term(labels) for term in terms)


def _term(found: re.Match[str]) -> Callable[[Labels], bool]:
    if found["absent"]:
        missing = found["missing"]
        return lambda labels: missing not in labels
    name = found["name"]
    if found["sign"] is None and found["set"] is None:
        return lambda labels: name in labels
    allowed = {found["value"] or ""} if found["sign"] else {value.strip() for value in found["values"].split(",")}
    if found["sign"] == "!=" or found["set"] == "notin":
        return lambda labels: labels.get(name) not in allowed
    return lambda labels: labels.get(name) in allowed
