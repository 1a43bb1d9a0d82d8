"""Translate a source's tick to the canonical vocabulary.

A layout is compiled when it changes; the same layout again costs one loop per device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pulsed.errors import TooManyGpus
from pulsed.model.gpu import Device, GpuKey
from pulsed.model.owner import Ownership
from pulsed.model.raw_tick import MAX_GPUS, KernelEvent, Labels, Layout, RawTick, RawValue
from pulsed.model.tick import GpuRow, Tick
from pulsed.model.vocabulary import NOTHING
from pulsed.owners.attribution.scraped_pods import PodName, ScrapedPods
from pulsed.translate.extras import CpuSlot, ExtrasReader, cpu_slots, extras_plans, read_cpus, unknown_fields
from pulsed.translate.fields import TEXT_COLUMNS
from pulsed.translate.identity import (
    blocks_of,
    clean_labels,
    clean_text,
    devices,
    dmon_entities,
    exporter_entities,
    labelled_owners,
)
from pulsed.translate.owner_uses import UsePlan, use_plans
from pulsed.translate.page_units import PageUnits, UnitPositions
from pulsed.translate.plan import Plan, first_series, plans, unnamed_guests


@dataclass(slots=True)
class _Compiled:
    """A compiled layout.

    A page's layout keeps series for a while after they are gone. Their labels (a pod, a driver)
    are then out of date: absent rows are left out, and the layout is recompiled when one comes or goes.

    Attributes:
        parts: its devices with their owners by labels, how to read them from which position on, whether they have a row
            of their own (a board may be known from its MIG instances only), how to read what their owners use, and
            whether DCGM has dropped them.
        blocks: all of its rows.
        live: the labels of those that were there.
        heads: of each live row, a position that had a value.
        gone: all positions of the other rows.
        texts: positions of text columns that identify devices.
        seen: their values at the last check.
        extras: reads a dcgm-exporter's own metrics; None where there are none.
        cpus: the processors of superchips.
        unknown: names of DCGM that no table has.
        unit_positions: of values whose unit may be another one.
    """

    layout: Layout
    parts: tuple[tuple[Device, Ownership, Plan, int, bool, UsePlan | None, bool], ...]
    blocks: Mapping[Labels, Sequence[int]]
    live: frozenset[Labels]
    heads: tuple[int, ...]
    gone: tuple[int, ...]
    texts: tuple[int, ...]
    seen: tuple[RawValue, ...]
    extras: ExtrasReader | None
    cpus: tuple[CpuSlot, ...]
    unknown: tuple[str, ...]
    unit_positions: UnitPositions

    def fits(self, values: Sequence[RawValue]) -> bool:
        """Return whether the same rows are present with the same texts; cheap, and may return a false no."""
        return (
            None not in [values[position] for position in self.heads]
            and all([values[position] is None for position in self.gone])  # noqa: C419 - a list is faster
            and (not self.texts or tuple(values[position] for position in self.texts) == self.seen)
        )


class Translator:
    """Translates the ticks of one target.

    Args:
        node: the host of GPUs whose series do not name one.
    """

    def __init__(self, node: str = "") -> None:
        self._node = node
        self._texts: dict[Labels, dict[str, str]] = {}
        self._own_texts: dict[GpuKey, dict[str, str]] = {}
        self._labels: Labels = ()
        self._units = PageUnits()
        self.configure()

    def configure(self, max_gpus: int = MAX_GPUS, exporter_pods: Sequence[str] = ()) -> None:
        """Translate by these settings from the next tick on.

        Args:
            max_gpus: most GPUs and MIG instances of a tick.
            exporter_pods: patterns of the pods of exporters, as in `attribution.exporter_pods`.
        """
        self._max_gpus, self._scraped_pods = max_gpus, ScrapedPods(exporter_pods)
        self._compiled: _Compiled | None = None

    def translate(self, raw: RawTick, kernel_events: tuple[KernelEvent, ...] | None = None) -> Tick:
        """Return the tick in the canonical vocabulary.

        A row that is there is a GPU, also when there is nothing on it but N/A: then nothing is known of it.

        Args:
            kernel_events: of the kernel log since the last tick; None where the log is not read.

        Raises:
            TooManyGpus: it has more than `max_gpus`.
        """
        values = raw.values
        if raw.target_labels != self._labels:
            self._labels, self._compiled = raw.target_labels, None
        compiled = self._compiled
        if compiled is None or raw.layout != compiled.layout:
            compiled = self._compiled = None  # both at once may be large
            compiled = self._compile(raw.target, raw.layout, values)
        elif not compiled.fits(values):
            compiled = self._recheck(raw.target, compiled, values)
        if self._units.learn(compiled.unit_positions, values):
            compiled = self._compile(raw.target, raw.layout, values)
        rows: list[GpuRow] = []
        extras = {} if compiled.extras is None else compiled.extras.read(values)
        notes: list[str] = []
        for device, ownership, plan, first, has_row, of_owners, is_dropped in compiled.parts:
            reading = plan.read(values, first, notes)
            if reading == NOTHING and not has_row and not notes:
                continue
            row = GpuRow(device, reading, raw.time, ownership=ownership)
            if notes:
                row.anomalies, notes = tuple(dict.fromkeys(notes)), []
            if extras:
                row.extras = extras.get(device.entity)
            if is_dropped:  # the exporter repeats what its collectors had: a health of 0 is not a result
                row.presence = "lost"
                row.extras = row.extras and row.extras._replace(health_watches=None, clock_events=None)
            if of_owners is not None and (uses := of_owners.read(reading, values)) is not None:
                row.ownership = replace(ownership, uses=uses)
            rows.append(row)
        cpus = read_cpus(compiled.cpus, values) if compiled.cpus else ()
        return Tick(
            raw,
            rows,
            kernel_events,
            raw.epoch,
            lists_gpus=bool(rows),
            cpus=cpus,
            unknown_fields=compiled.unknown,
        )

    def _recheck(self, target: str, compiled: _Compiled, values: Sequence[RawValue]) -> _Compiled:
        layout, blocks = compiled.layout, compiled.blocks
        if _live(layout, blocks, values) != compiled.live or self._learn(layout, values):
            return self._compile(target, layout, values)
        compiled.heads = _heads(layout, blocks, compiled.live, values)
        compiled.seen = tuple(values[position] for position in compiled.texts)
        return compiled

    def _compile(self, target: str, layout: Layout, values: Sequence[RawValue]) -> _Compiled:
        blocks = blocks_of(layout)
        live = _live(layout, blocks, values)
        if layout.dialect == "dmon":
            self._learn(layout, values)
            entities = dmon_entities(blocks, self._node, self._texts)
            guests: list[int] = []
            scraped: frozenset[PodName] = frozenset()
        else:
            present = {labels: positions for labels, positions in blocks.items() if labels in live}
            entities = exporter_entities(layout, present, self._node, self._own_texts)
            guests = unnamed_guests(layout, entities)
            scraped = self._scraped_pods.find(map(clean_labels, present))
        if sum(bool(subject.series) for subject in entities) > self._max_gpus:
            raise TooManyGpus(self._max_gpus, target)
        of_owners = use_plans(layout, entities, self._units, scraped)
        parts = tuple(
            zip(
                devices(entities, guests, self._labels),
                map(Ownership, labelled_owners(entities, scraped)),
                plans(layout, entities, self._units),
                map(first_series, entities),
                [bool(subject.series) for subject in entities],
                map(of_owners.get, range(len(entities))),
                [subject.is_dropped for subject in entities],
                strict=True,
            )
        )
        texts = tuple(first + position for _, _, plan, first, *_ in parts for position in plan.texts)
        self._compiled = _Compiled(
            layout=layout,
            parts=parts,
            blocks=blocks,
            live=live,
            heads=_heads(layout, blocks, live, values),
            gone=tuple(position for labels, block in blocks.items() if labels not in live for position in block),
            texts=texts,
            seen=tuple(values[position] for position in texts),
            extras=ExtrasReader(of_extras) if (of_extras := extras_plans(layout, entities)) else None,
            cpus=cpu_slots(layout, self._node),
            unknown=unknown_fields(layout),
            unit_positions=self._units.positions(layout),
        )
        return self._compiled

    def _learn(self, layout: Layout, values: Sequence[RawValue]) -> bool:
        """Store dmon's text columns; return whether any is new. A blank cell does not clear an earlier value."""
        if layout.dialect != "dmon":
            return False
        news = False
        for series, value in zip(layout.series, values, strict=True):
            attribute = TEXT_COLUMNS.get(series.name)
            text = clean_text(value)
            if attribute and text:
                texts = self._texts.setdefault(series.labels, {})
                news |= texts.get(attribute) != text
                texts[attribute] = text
        return news


def _live(layout: Layout, blocks: Mapping[Labels, Sequence[int]], values: Sequence[RawValue]) -> frozenset[Labels]:
    """Return the present rows. Only an exporter's rows can go out of date; for other dialects all rows count.

    A GPU without values in one dmon tick still counts as a GPU of its host.
    """
    if layout.dialect != "exporter":
        return frozenset(blocks)
    return frozenset(
        labels for labels, positions in blocks.items() if any(values[position] is not None for position in positions)
    )


def _heads(
    layout: Layout, blocks: Mapping[Labels, Sequence[int]], live: frozenset[Labels], values: Sequence[RawValue]
) -> tuple[int, ...]:
    if layout.dialect != "exporter":
        return ()
    return tuple(
        next(position for position in positions if values[position] is not None)
        for labels, positions in blocks.items()
        if labels in live
    )
