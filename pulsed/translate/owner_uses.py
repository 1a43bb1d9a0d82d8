"""Use of a shared GPU by each pod.

From 4.8.2 on, dcgm-exporter writes memory and utilization of the processes of each pod into rows of their own, next to
the row of the GPU. Older versions repeat the row of the GPU for each pod: these numbers add up to more than it has.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pulsed.model.owner import Owner, OwnerKind, Owners, OwnerUse, OwnerUses
from pulsed.model.raw_tick import Labels, Layout, RawValue
from pulsed.model.vocabulary import Reading, Value
from pulsed.owners.attribution.scraped_pods import PodName
from pulsed.owners.attribution.source import is_relabelled, owners_of
from pulsed.translate.fields import fields_named
from pulsed.translate.identity import SeriesEntity, clean_labels
from pulsed.translate.page_units import PageUnits
from pulsed.translate.plan import Slot, read_slot, slot_of

MEMORY, ACTIVITY = "memory_used_bytes", "gpu_utilization_ratio"

MEMORY_EXCESS = 1.01
"""More than the memory of the GPU in use, by this factor, is not the memory of its owners: rounding is less."""

ACTIVITY_EXCESS = 0.1
"""The utilizations of a GPU and of its processes are not of the same moments."""

_Program = tuple[OwnerKind, str]
"""A pod with all of its containers, or another owner."""

_Slots = Mapping[_Program, Sequence[Slot]]


@dataclass(frozen=True, slots=True)
class UsePlan:
    """Where the numbers of the owners of one device are among the values of a layout.

    Attributes:
        programs: the owners by program.
        memory: series of the memory in use, by program; empty where the device has no row of its own, or a program
            has none.
        activity: the same of the utilization.
    """

    programs: Mapping[_Program, Sequence[Owner]]
    memory: _Slots
    activity: _Slots

    def read(self, reading: Reading, values: Sequence[RawValue]) -> OwnerUses | None:
        """Return the use by each owner; None if the rows do not belong to its owners."""
        memory = _numbers(self.memory, values)
        activity = _numbers(self.activity, values)
        if not _fits(memory, reading.memory_used_bytes, factor=MEMORY_EXCESS):
            memory = {}
        if not _fits(activity, reading.gpu_utilization_ratio, more=ACTIVITY_EXCESS):
            activity = {}
        total = sum(activity.values())
        uses: dict[tuple[OwnerKind, str], OwnerUse] = {}
        for program, owners in self.programs.items():
            share = activity[program] / total / len(owners) if total else None
            used = memory[program] / len(owners) if memory else None
            uses |= {owner.key: OwnerUse(used, share) for owner in owners}
        return uses if memory or total else None


def use_plans(
    layout: Layout, entities: Sequence[SeriesEntity], units: PageUnits, scraped: Container[PodName] = ()
) -> Mapping[int, UsePlan]:
    """Return the plans of the devices whose owners have rows of their own, by position in `entities`."""
    if layout.dialect != "exporter":
        return {}
    relabelled = is_relabelled(row for subject in entities for row in subject.rows)
    plans = {
        position: _plan(layout, subject, units, partial(owners_of, relabelled=relabelled, scraped=scraped))
        for position, subject in enumerate(entities)
    }
    return {position: plan for position, plan in plans.items() if plan.memory or plan.activity}


def _plan(
    layout: Layout,
    subject: SeriesEntity,
    units: PageUnits,
    owners_in: Callable[[Sequence[Mapping[str, str]]], Owners | None],
) -> UsePlan:
    programs: dict[_Program, dict[Owner, None]] = {}
    slots: dict[str, dict[_Program | None, list[Slot]]] = {MEMORY: {}, ACTIVITY: {}}
    owners: dict[Labels, Sequence[Owner]] = {}
    for position, rank in subject.series:
        series = layout.series[position]
        if series.labels not in owners:
            owners[series.labels] = owners_in([clean_labels(series.labels)]) or () if rank else ()
        programs_of_row = dict.fromkeys(map(_program, owners[series.labels]))
        for owner in owners[series.labels]:
            programs.setdefault(_program(owner), {})[owner] = None
        for field in fields_named(series.name):
            if (of_quantity := slots.get(field.quantity)) is not None:
                slot = slot_of(position, field, units.unit_of(series.name, field), whole=subject.entity.kind == "gpu")
                for program in programs_of_row or (None,):
                    of_quantity.setdefault(program, []).append(slot)
    return UsePlan(
        {program: tuple(owners_of_program) for program, owners_of_program in programs.items()},
        *[_complete(slots[quantity], programs) for quantity in (MEMORY, ACTIVITY)],
    )


def _program(owner: Owner) -> _Program:
    return (owner.kind, f"{owner.namespace}/{owner.name}") if owner.kind == "pod" else owner.key


def _complete(slots: Mapping[_Program | None, Sequence[Slot]], programs: Mapping[_Program, object]) -> _Slots:
    """Return the series of each program; none unless the device and all programs have one."""
    if None not in slots or not programs or not slots.keys() >= programs.keys():
        return {}
    return {program: slots[program] for program in programs}


def _numbers(slots: _Slots, values: Sequence[RawValue]) -> dict[_Program, float]:
    """Return the number of each program, which several rows may repeat; empty if one has none."""
    numbers = {
        program: max(
            (number for slot in of_program if (number := read_slot(slot, values, 0, [])) is not None), default=None
        )
        for program, of_program in slots.items()
    }
    complete = {program: number for program, number in numbers.items() if number is not None}
    return complete if len(complete) == len(numbers) else {}


def _fits(numbers: Mapping[_Program, float], whole: Value, factor: float = 1.0, more: float = 0.0) -> bool:
    return whole is not None and sum(numbers.values()) <= whole * factor + more
