"""Functions that parse or check one value of the configuration.

They raise ValueError with a text that continues the value: "'12 parsecs' is not a duration".
"""

from __future__ import annotations

import re
from itertools import pairwise

from pulsed.settings import NOT_ALLOWED


def ascending(value: tuple[float, ...]) -> tuple[float, ...]:
    """Return numbers in ascending order."""
    if any(low >= high for low, high in pairwise(value)):
        raise ValueError("is not in ascending order")
    return value


def xid_code(value: str) -> int:
    """Return the code of an XID; `79.0` is 79."""
    try:
        return int(re.sub(r"\.0*$", "", value.strip()))
    except ValueError:
        raise ValueError(NOT_ALLOWED) from None
