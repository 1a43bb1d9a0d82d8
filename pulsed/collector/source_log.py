"""The log lines of one source, for all that read sources without end."""

from __future__ import annotations

import logging
import time

from pulsed.errors import InternalError, SourceEnded, SourceError
from pulsed.model.raw_tick import RawTick

log = logging.getLogger(__name__)

REMIND_SECONDS = 60.0
"""Time between two log lines about a source that still delivers no data."""


class SourceLog:
    """Logs a failure of a source, or that it has no GPU, once a minute; rejected rows once per reason.

    Args:
        is_logged: whether failures and the end of the source are logged; false where the caller reports them.
    """

    def __init__(self, *, is_logged: bool = True) -> None:
        self._is_logged = is_logged
        self._failure = ""
        self._logged_at = 0.0
        self._rejected: set[str] = set()

    def failed(self, target: str, error: SourceError) -> None:
        """Log an attempt that delivered no tick, or the end of the source."""
        message = str(error)
        if isinstance(error, SourceEnded):
            if self._is_logged:
                log.info("source ended", extra={"target": target, "reason": message})
        elif isinstance(error, InternalError):  # logged with its traceback
            self._failure = message
        else:
            self._warn("source failed", target, message, {"reason": error.reason, "error": message})

    def worked(self, raw: RawTick, *, is_empty: bool = False) -> None:
        """Log what changed with a tick; one that `is_empty` has no GPU, which is logged like a failure."""
        if is_empty:
            self._warn("source has no GPU", raw.target, "no GPU", {})
        elif self._failure:
            log.info("source works again", extra={"target": raw.target})
            self._failure = ""
        for reason in raw.rejected.keys() - self._rejected:
            self._rejected.add(reason)
            log.warning(
                "rows were left out; logged once per reason, counted in pulsed_source_rejected_rows_total",
                extra={"target": raw.target, "reason": reason, "rows": raw.rejected[reason]},
            )

    def _warn(self, message: str, target: str, failure: str, extra: dict[str, str]) -> None:
        now = time.monotonic()
        if self._is_logged and (failure != self._failure or now - self._logged_at >= REMIND_SECONDS):
            log.warning(message, extra={"target": target} | extra)
            self._logged_at = now
        self._failure = failure
