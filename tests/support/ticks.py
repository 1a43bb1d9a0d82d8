"""Ticks of devices and readings, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device
from pulsed.model.owner import Owners, Ownership, OwnerUses
from pulsed.model.raw_tick import RawTick
from pulsed.model.result import NOT_COMPUTED, Result
from pulsed.model.tick import Extras, GpuRow, Tick
from pulsed.model.vocabulary import Reading


def tick_of(
    raw: RawTick,
    devices: Sequence[Device],
    readings: Sequence[Reading],
    results: Sequence[Result] = (),
    *,
    owners: Mapping[int, Owners | None] | None = None,
    uses: Mapping[int, OwnerUses] | None = None,
    passing: Mapping[int, Owners] | None = None,
    anomalies: Mapping[int, tuple[str, ...]] | None = None,
    extras: Mapping[int, Extras] | None = None,
    missing: Mapping[int, float] | None = None,
    **more: Any,
) -> Tick:
    """Return the tick of some devices with their readings; what only some have is by position.

    Args:
        missing: when those that are not listed were listed last.
    """
    rows = [
        GpuRow(
            device,
            reading,
            Unix((missing or {}).get(at, raw.time)),
            anomalies=(anomalies or {}).get(at, ()),
            extras=(extras or {}).get(at),
            ownership=Ownership((owners or {}).get(at), (uses or {}).get(at, {}), (passing or {}).get(at, ())),
            presence="unlisted" if at in (missing or {}) else "listed",
            result=results[at] if results else NOT_COMPUTED,
        )
        for at, (device, reading) in enumerate(zip(devices, readings, strict=True))
    ]
    return Tick(raw, rows, **more)


def readings_of(tick: Tick) -> list[Reading]:
    """The readings of a tick."""
    return [row.reading for row in tick.gpus]


def results_of(tick: Tick) -> list[Result]:
    """The results of a tick."""
    return [row.result for row in tick.gpus]


def missing_in(tick: Tick) -> dict[int, float]:
    """By position, when the rows that are not listed were listed last."""
    return {at: row.time for at, row in enumerate(tick.gpus) if not row.is_listed}


def anomalies_of(tick: Tick) -> dict[int, tuple[str, ...]]:
    """By position, the anomalies of the rows that have any."""
    return {at: row.anomalies for at, row in enumerate(tick.gpus) if row.anomalies}


def extras_of(tick: Tick) -> dict[int, Extras]:
    """By position, the extras of the rows that have them."""
    return {at: row.extras for at, row in enumerate(tick.gpus) if row.extras is not None}


def uses_of(tick: Tick) -> dict[int, OwnerUses]:
    """By position, what owners use of the rows whose source measures it."""
    return {at: row.ownership.uses for at, row in enumerate(tick.gpus) if row.ownership.uses}


def passing_in(tick: Tick) -> dict[int, Owners]:
    """By position, the owners that had a GPU since the tick before, and in neither of both."""
    return {at: row.ownership.passing for at, row in enumerate(tick.gpus) if row.ownership.passing}


def owners_of(tick: Tick) -> list[Owners | None]:
    """The owners of all rows."""
    return [row.owners for row in tick.gpus]
