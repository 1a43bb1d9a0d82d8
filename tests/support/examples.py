"""How many examples property tests try: all of them in `make nightly`, otherwise a tenth."""

from __future__ import annotations

import os
from collections.abc import Collection

from hypothesis import HealthCheck, settings

VARIABLE = "TEST_EXAMPLES"
"""Variable of the environment: `all` tries as many examples as the tests name."""

SHARE = 1 if os.environ.get(VARIABLE) == "all" else 10


def examples(count: int, suppress: Collection[HealthCheck] = ()) -> settings:
    """Return the decorator of a property test that tries at most this number of examples.

    Without a limit of time: other processes run on this machine.
    """
    return settings(max_examples=max(5, count // SHARE), deadline=None, suppress_health_check=suppress)
