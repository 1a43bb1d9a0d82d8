"""The sample lines of the GPU families, rendered once per tick and target.

Only targets with a new tick are rendered again. Both text formats have the same sample lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress
from math import isfinite
from operator import is_, ne
from typing import cast
from weakref import ref

from pulsed.model.computed_tick import ComputedTick, GpuSample, gpu_samples
from pulsed.model.gpu import Device, GpuKey, gpu_labels, key_of
from pulsed.model.vocabulary import Value
from pulsed.present.exposition.catalog import Catalog, Form
from pulsed.present.exposition.family_types import Basis, DerivedFamily, Samples
from pulsed.present.exposition.owner_families import owner_label_text
from pulsed.present.exposition.series_memory import COUNTER_FORMS, CounterForm, SeriesMemory
from pulsed.present.exposition.text_format import encoded, label_pairs

_Shape = object
"""Cache key of a template: which lines it has."""

_WHOLE = object()
"""The shape of a column with a value of every GPU."""


@lru_cache(maxsize=4096)
def _prefix(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = label_pairs((label, value) for label, value in zip(labels, values, strict=True) if value)
    return f"{name}{{{pairs}," if pairs else name + "{"


class TargetRenderer:
    """What one target adds to the page, kept as long as nothing of it changes.

    Most values are those of the tick before (limits, errors, the class): the lines of such a family are kept, too.
    Writing numbers is most of the cost of a page; lines that are rendered a second time have a template.

    Args:
        here: node of GPUs whose source does not name one.
        catalog: the families.
        memory: of the series of all targets.
        owner_labels: whether series have the labels of the owners of their GPU.
    """

    def __init__(self, here: str, catalog: Catalog, memory: SeriesMemory, *, owner_labels: bool = False) -> None:
        self._here, self._catalog, self._memory, self._owner_labels = here, catalog, memory, owner_labels
        self._devices: tuple[Device, ...] = ()
        self._tick: Callable[[], ComputedTick | None] = lambda: None  # it need not outlive the next one
        self._reset()

    def _reset(self) -> None:
        """Forget everything that depends on the devices."""
        self._labels = [self._label_text(device) + "} " for device in self._devices]
        self._keys: list[GpuKey] = [key_of(device, self._here) for device in self._devices]
        self._chunks = [b""] * len(self._catalog.families)
        self._columns: Sequence[tuple[Value, ...]] = ((),) * len(self._catalog.columns)
        self._samples: dict[int, list[Samples]] = {}
        self._bases: dict[Basis, Sequence[object]] = dict.fromkeys(self._catalog.bases, ())
        self._templates: dict[int, tuple[_Shape, bytes | None]] = {}
        self._settled: dict[int, tuple[tuple[bool, ...], int]] = {}
        self._temporary: set[int] = set()
        """Places of chunks that change with time alone."""

    def _label_text(self, device: Device) -> str:
        return label_pairs(gpu_labels(device, self._here)) + (owner_label_text(device) if self._owner_labels else "")

    def render(self, tick: ComputedTick) -> list[bytes]:
        """Return the sample lines of every family, empty for one without samples."""
        if tick.devices is not self._devices:
            self._devices = tick.devices
            self._reset()
        if tick is not self._tick() or self._temporary:
            self._tick = ref(tick)
            if tick.devices:
                self._update(gpu_samples(tick))
        return self._chunks

    def _update(self, shown: Sequence[GpuSample]) -> None:
        """Render the families that changed."""
        chunks, temporary, catalog = self._chunks, self._temporary, self._catalog
        values = [
            *zip(*[sample.reading for sample in shown], strict=True),
            *zip(*[sample.result.counters.values for sample in shown], strict=True),
        ]
        columns = [values[column.source] for column in catalog.columns]
        for place in {*compress(range(len(columns)), map(ne, columns, self._columns)), *temporary}:
            if place < len(columns):
                chunks[place] = self._column(place, columns[place], shown)
        self._columns = columns
        changed = self._changed_bases(shown)
        for place, (family, _, samples) in enumerate(catalog.derived, len(columns)):
            if family.basis is None or changed[family.basis] or place in temporary:
                found = list(map(samples, shown))
                if family.basis is None and place not in temporary:
                    if found == self._samples.get(place):
                        continue
                    self._samples[place] = found
                chunks[place] = self._derived(place, found)

    def _changed_bases(self, shown: Sequence[GpuSample]) -> Mapping[Basis, bool]:
        """Return for each basis whether it is a new object for any GPU."""
        changed = {}
        for basis, before in self._bases.items():
            now = list(map(basis, shown))
            changed[basis] = len(now) != len(before) or not all(map(is_, now, before))
            self._bases[basis] = now
        return changed

    def _column(self, place: int, column: tuple[Value, ...], shown: Sequence[GpuSample]) -> bytes:
        """Return the lines of one quantity or counter of all GPUs.

        Only finite numbers are readings, and OpenMetrics refuses a page with a negative counter.
        """
        _, _, prefix, least, form = self._catalog.columns[place]
        labels = self._labels
        if form != "every":
            mask, absent = self._settled.get(place, ((), -1))
            # As long as the same GPUs are at 0 or missing, the same ones are published.
            if column.count(0.0) + column.count(None) == absent and all(compress(column, mask)):
                numbers = tuple(compress(column, mask))
                if _are_valid(numbers, least):
                    return self._lines(place, mask, lambda: [prefix + each for each in compress(labels, mask)], numbers)
            column = self._sparse_column(place, prefix, form, column, shown)
        if _are_valid(column, least):
            return self._lines(place, _WHOLE, lambda: [prefix + each for each in labels], column)
        mask = tuple([value is not None and isfinite(value) and value >= least for value in column])
        numbers = tuple(compress(column, mask))
        return self._lines(place, mask, lambda: [prefix + each for each in compress(labels, mask)], numbers)

    def _sparse_column(
        self, place: int, series: str, form: Form, column: tuple[Value, ...], shown: Sequence[GpuSample]
    ) -> tuple[Value, ...]:
        """Return what is published of a column, None where nothing is."""
        found: list[tuple[Value, bool]] = []
        for key, value, sample in zip(self._keys, column, shown, strict=True):
            if value is None:
                found.append((None, False))
            elif form == "recent":
                found.append(self._memory.gauge(key, series, value, sample.time))
            else:
                found.append(self._memory.counter(key, series, value, cast("CounterForm", form)))
        is_temporary = any(changes for _, changes in found)
        self._mark(place, is_temporary)
        values = tuple([value for value, _ in found])
        self._settled.pop(place, None)
        if not is_temporary:
            mask = tuple([value is not None for value in values])
            self._settled[place] = (mask, column.count(0.0) + column.count(None))
        return values

    def _derived(self, place: int, samples: Sequence[Samples]) -> bytes:
        """Return the lines of one derived family of all GPUs."""
        family, form, _ = self._catalog.derived[place - len(self._columns)]
        if form in COUNTER_FORMS:
            samples = self._counted(place, family.name, cast("CounterForm", form), samples)
        numbers = tuple(chain.from_iterable([values for _, values in samples]))
        if not all(map(isfinite, numbers)):
            samples = [_finite(each) for each in samples]
            numbers = tuple(chain.from_iterable([values for _, values in samples]))
        shape = tuple([labels for labels, _ in samples])

        def starts() -> list[str]:
            return [
                _start(family, own) + label for label, labels in zip(self._labels, shape, strict=True) for own in labels
            ]

        return self._lines(place, shape, starts, numbers)

    def _counted(self, place: int, name: str, form: CounterForm, samples: Sequence[Samples]) -> list[Samples]:
        """Return the samples of counters that appear with their first event."""
        found: list[Samples] = []
        is_temporary = False
        for key, (labels, values) in zip(self._keys, samples, strict=True):
            kept: list[tuple[tuple[str, ...], float]] = []
            for own, value in zip(labels, values, strict=True):
                number, changes = self._memory.counter(key, f"{name} {own[0]}", value, form)
                is_temporary = is_temporary or changes
                if number is not None:
                    kept.append((own, number))
            found.append((tuple([own for own, _ in kept]), tuple([number for _, number in kept])))
        self._mark(place, is_temporary)
        return found

    def _mark(self, place: int, is_temporary: bool) -> None:
        if is_temporary:
            self._temporary.add(place)
        else:
            self._temporary.discard(place)

    def _lines(
        self, place: int, shape: _Shape, starts: Callable[[], Sequence[str]], numbers: tuple[Value, ...]
    ) -> bytes:
        """Return lines that begin with `starts` and end with numbers; a template from the second time of a shape on."""
        known, template = self._templates.get(place, (None, None))
        if shape is not known and shape != known:
            self._templates[place] = (shape, None)
            return encoded(f"{start}{number!r}\n" for start, number in zip(starts(), numbers, strict=True))
        if template is None:
            template = _template(starts())
            self._templates[place] = (shape, template)
        return template % numbers


def _are_valid(column: Sequence[Value], least: float) -> bool:
    """Return whether all values are finite and no less than the least, by functions in C."""
    try:
        return not column or (
            isfinite(sum(cast("Sequence[float]", column))) and min(cast("Sequence[float]", column)) >= least
        )
    except TypeError:  # None
        return False


def _finite(samples: Samples) -> Samples:
    kept = [(own, value) for own, value in zip(*samples, strict=True) if isfinite(value)]
    return tuple([own for own, _ in kept]), tuple([value for _, value in kept])


def _start(family: DerivedFamily, own: tuple[str, ...]) -> str:
    if family.type == "histogram":
        return _prefix(family.name + own[0], family.labels, own[1:])
    return _prefix(family.name, family.labels, own)


def _template(starts: Iterable[str]) -> bytes:
    """Return the lines with `%a` in place of their numbers, which takes half the time of joining lines.

    For ints and floats `%a` is the same as `repr`.
    """
    return encoded(start.replace("%", "%%") + "%a\n" for start in starts)
