"""Query parameters that are lists of names, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from fastapi import Query

from pulsed.errors import UsageError
from pulsed.present.api.json_response import ApiError
from pulsed.present.api.sample_fields import check_fields


def some_of(names: Sequence[str], meaning: str, default: str | None = None) -> Any:
    """Return a query parameter with some of these names, by default all; the pattern is for the documentation only."""
    one = f"({'|'.join(names)})"
    return Query(
        ",".join(names) if default is None else default,
        description=f"{meaning}, separated by commas",
        json_schema_extra={"pattern": f"^{one}(,{one})*$" if default != "" else f"^({one}(,{one})*)?$"},
    )


def chosen(parameter: str, text: str, known: Container[str], error: Callable[[str], str]) -> list[str]:
    """Return the names in a list, each once.

    Args:
        error: returns what is wrong with an unknown name.

    Raises:
        ApiError: 400, a name is unknown.
    """
    wanted = list(dict.fromkeys(text.split(",")))
    for name in wanted:
        if name not in known:
            raise ApiError(400, f"{parameter}: {error(name)}")
    return wanted


def chosen_fields(text: str) -> list[str]:
    """Return the names in a list of `FIELDS`, each once. Raises `ApiError` 400 for an unknown one."""
    wanted = list(dict.fromkeys(text.split(",")))
    try:
        check_fields(wanted)
    except UsageError as error:
        raise ApiError(400, f"fields: {error}") from None
    return wanted
