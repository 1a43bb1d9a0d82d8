"""The section `accounts` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from pulsed.config.settings import Settings, setting
from pulsed.config.values import Duration, Size
from pulsed.durations import DAY

KEPT_SECONDS = 90 * DAY
KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class AccountsSettings(Settings):
    """How long the accounts of owners that have ended are kept in `state_dir`."""

    keep: Duration = setting(KEPT_SECONDS, "How long the account of an ended owner is kept, in whole days.")
    max_bytes: Size = setting(
        KEPT_BYTES, "Size limit of these files, some 4 KB per GPU of an owner; the oldest days are removed."
    )
