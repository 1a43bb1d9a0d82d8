"""Declaration of the health of a GPU as a derived result: its inputs, and its values on the page."""

from __future__ import annotations

from pulsed.compute.declaration import Alternatives, DerivedNumber, DerivedResult, DerivedState
from pulsed.compute.settings import ComputeSettings
from pulsed.model.health import STATES
from pulsed.model.vocabulary import QUANTITIES


def _inputs(settings: ComputeSettings) -> tuple[Alternatives, ...]:
    """Return the inputs of every check, except checks that only some GPUs need."""
    input_names = [
        tuple(name for name in check.inputs if name in QUANTITIES)
        for check in settings.health.checks()
        if not check.optional and not check.unless
    ]
    return tuple(dict.fromkeys(names for names in input_names if names))


HEALTH = DerivedResult(
    name="health",
    inputs=_inputs,
    without=lambda settings: "the checks that need it are unknown, never ok",
    values=(
        DerivedState(
            name="health_state",
            help="Worst state of all checks that could be evaluated: 1 for that state, 0 for all others; unknown is not"
            " ok",
            states=STATES,
            get=lambda reading, result: result.health.state,
            label="state",
            json="health.state",
            ranked=True,
        ),
        DerivedNumber(
            name="health_severity",
            help="Health state as a number: -1 unknown, 0 ok, 1 info, 2 warn, 3 hot, 4 crit",
            get=lambda reading, result: result.health.severity,
            json="health.severity",
            csv=False,
            always=True,
            integer=True,
        ),
        DerivedNumber(
            name="health_coverage_ratio",
            help="Share of the applicable checks that could be evaluated",
            get=lambda reading, result: result.health.coverage,
            json="health.coverage",
            csv=False,
            always=True,
        ),
    ),
)
