"""Derived numbers that declare their own PromQL, as recording rules."""

from __future__ import annotations

from collections.abc import Iterator

from pulsed.compute.derived_results import recorded_numbers
from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.inputs import with_inputs
from pulsed.present.promql.rule_types import IdentityLabels, Recording, recorded


def derived_rules(settings: ComputeSettings, identity: IdentityLabels) -> Iterator[Recording]:
    """Yield one rule per number."""
    for number in recorded_numbers():
        yield Recording(recorded(number.name, "raw"), with_inputs(number.promql), number.help + ".")
