"""The health of all targets as JSON, for the state file."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pulsed.compute.health_evaluator import HealthEvaluator

log = logging.getLogger(__name__)


class SavedHealth:
    """The health of targets as of the last run, until they are read again, by the target's name."""

    def __init__(self) -> None:
        self._kept: dict[str, Mapping[str, object]] = {}

    def load(self, saved: object) -> None:
        """Keep what an earlier run has saved. Raises `ValueError` if it is something else."""
        if not isinstance(saved, dict):
            raise ValueError(f"a {type(saved).__name__} instead of the targets")
        self._kept = {name: kept for name, kept in saved.items() if isinstance(kept, dict)}

    def restore(self, target: str, evaluator: HealthEvaluator, now: float) -> None:
        """Restore the saved health of a target, once; what is not valid is logged and dropped.

        Args:
            evaluator: has evaluated nothing yet.
            now: in Unix seconds.
        """
        kept = self._kept.pop(target, None)
        if kept is None:
            return
        try:
            evaluator.restore(kept, now)
        except ValueError as error:
            log.warning("saved health cannot be used", extra={"target": target, "error": str(error)})

    def dump(self, evaluators: Mapping[str, HealthEvaluator]) -> dict[str, object]:
        """Return the health of all targets; those that are not read now are kept as they were."""
        return {**self._kept, **{name: evaluator.dump() for name, evaluator in evaluators.items()}}
