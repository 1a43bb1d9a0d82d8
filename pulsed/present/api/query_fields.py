"""Query parameters that are lists of names, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Query

from pulsed.errors import UsageError
from pulsed.present.api.sample_fields import check_fields


def some_of(names: Sequence[str], meaning: str, default: str | None = None) -> Any:
    """Return a query parameter with some of these names, by default all; the pattern is for the documentation only."""
    one = f"({'|'.join(names)})"
    return Query(
        ",".join(names) if default is None else default,
        description=f"{meaning}, separated by commas",
        json_schema_extra={"pattern": f"^{one}(,{one})*$" if default != "" else f"^({one}(,{one})*)?$"},
    )


def unknown_field(wanted: Sequence[str]) -> str:
    """Return the error for the first unknown field; empty if all are known."""
    try:
        check_fields(wanted)
    except UsageError as error:
        return f"fields: {error}"
    return ""
