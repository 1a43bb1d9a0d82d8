"""The owners that have a GPU, from `/jobs`, whose answers have a thousand at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Document = dict[str, Any]

PAGE = 1000
"""The most that a daemon gives in one answer."""


def with_all_running(ask: Callable[[str], Document], query: str = "") -> Document:
    """Return an answer of `/jobs` that has every running owner; ended ones follow as far as the last page has them.

    Args:
        ask: returns the document of a path.
        query: further parameters, each with a leading `&`.
    """
    answer = ask(f"/jobs?limit={PAGE}{query}")
    while len(answer["jobs"]) < answer.get("running", 0):  # daemons of old have no `running`
        following = ask(f"/jobs?limit={PAGE}{query}&offset={len(answer['jobs'])}")
        if not following["jobs"]:
            break  # owners have ended meanwhile
        answer = {**following, "jobs": [*answer["jobs"], *following["jobs"]]}
    return answer
