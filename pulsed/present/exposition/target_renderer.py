"""The sample lines of the GPU families, rendered once per tick and target.

A page of 10,000 GPUs is joined from the chunks of some thousand targets, of which only those with a new tick are
rendered again. Both text formats have the same sample lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import inf, isfinite
from operator import is_
from typing import cast

from pulsed.compute.tick import ComputedTick
from pulsed.present.exposition.families import COUNTER_FAMILIES, DERIVED, QUANTITY_FAMILIES
from pulsed.present.exposition.family_types import Basis, DerivedFamily, Family, Labels, Samples
from pulsed.present.exposition.text_format import label_pairs
from pulsed.present.gpu_keys import Key, key_of, label_text
from pulsed.present.gpu_sample import GpuSample, gpu_samples
from pulsed.translate.tick import Device
from pulsed.translate.vocabulary import Value

FAMILIES: tuple[Family, ...] = (
    *QUANTITY_FAMILIES,
    *(family for family in COUNTER_FAMILIES for _ in family.states),
    *DERIVED,
)
"""The family of each chunk of a target, in the order of the page. A counter per state has a chunk per state; a GPU has
all of them or none."""
_BASES = tuple(dict.fromkeys(family.basis for family in DERIVED if family.basis is not None))


_Shape = tuple[Labels, ...]
"""Cache key of a template: the labels of each GPU's samples."""

_NO_TEMPLATE: tuple[_Shape, bytes] = ((), b"")


@lru_cache(maxsize=4096)
def _prefix(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = label_pairs((label, value) for label, value in zip(labels, values, strict=True) if value)
    return f"{name}{{{pairs}," if pairs else name + "{"


_COLUMNS = (
    *((family.name + "{", 0.0 if family.type == "counter" else -inf) for family in QUANTITY_FAMILIES),
    *((_prefix(family.name, (family.label,), (state,)), 0.0) for family in COUNTER_FAMILIES for state in family.states),
)
"""Prefix of the lines of each quantity and counter, and the minimum of its value."""

_NO_COLUMNS: Sequence[tuple[Value, ...]] = ((),) * len(_COLUMNS)


class TargetRenderer:
    """What one target adds to the page, kept as long as nothing of it changes.

    Most values are those of the tick before (limits, errors, the class): the lines of such a family are kept, too.
    Writing numbers is most of the cost of a page; lines that are rendered a second time have a template.
    """

    def __init__(self, here: str) -> None:
        self.keys: tuple[Key, ...] = ()
        self._here = here
        self._devices: tuple[Device, ...] = ()
        self._tick: ComputedTick | None = None
        self._labels: list[str] = []
        self._hidden: frozenset[int] = frozenset()
        self._chunks = [b""] * len(FAMILIES)
        self._columns: Sequence[tuple[Value, ...]] = _NO_COLUMNS
        self._samples: dict[int, list[Samples]] = {}
        self._bases: dict[Basis, Sequence[object]] = dict.fromkeys(_BASES, ())
        self._written: set[int] = set()
        self._column_templates: dict[int, bytes] = {}
        self._derived_templates: dict[int, tuple[_Shape, bytes]] = {}

    def update_devices(self, devices: tuple[Device, ...]) -> bool:
        """Update to the target's devices; return whether they changed."""
        if devices is self._devices:
            return False
        self._devices, self._tick = devices, None
        self.keys = tuple(key_of(device, self._here) for device in devices)
        return True

    def render(self, tick: ComputedTick, hidden: frozenset[int]) -> list[bytes]:
        """Return the sample lines of every family, empty for one without samples.

        The devices are those of the last `update_devices`; those at the positions `hidden` belong to other targets.
        """
        if self._tick is None or hidden != self._hidden:
            self._hidden, self._tick = hidden, None
            self._labels = [
                label_text(device, self._here) + "} "
                for position, device in enumerate(self._devices)
                if position not in hidden
            ]
            self._chunks = [b""] * len(FAMILIES)
            self._columns = _NO_COLUMNS
            self._samples.clear()
            self._bases = dict.fromkeys(_BASES, ())
            self._written.clear()
            self._column_templates.clear()
            self._derived_templates.clear()
        if tick is not self._tick:
            self._tick = tick
            shown = gpu_samples(tick)
            if hidden:
                shown = [sample for position, sample in enumerate(shown) if position not in hidden]
            if shown:
                self._update(shown)
        return self._chunks

    def _update(self, shown: Sequence[GpuSample]) -> None:
        """Render the families that changed."""
        chunks = self._chunks
        columns = list(zip(*[(*sample.reading, *sample.result.account.values) for sample in shown], strict=True))
        for place, (column, before) in enumerate(zip(columns, self._columns, strict=True)):
            if column != before:
                chunks[place] = self._column(place, column)
        self._columns = columns
        changed = self._changed_bases(shown)
        for place, family in enumerate(DERIVED):
            if family.basis is not None:
                if changed[family.basis]:
                    chunks[len(columns) + place] = self._derived(place, list(map(family.samples, shown)))
                continue
            found = list(map(family.samples, shown))
            if found != self._samples.get(place):
                self._samples[place] = found
                chunks[len(columns) + place] = self._derived(place, found)

    def _changed_bases(self, shown: Sequence[GpuSample]) -> Mapping[Basis, bool]:
        """Return for each basis whether it is a new object for any GPU."""
        changed = {}
        for basis, before in self._bases.items():
            now = list(map(basis, shown))
            changed[basis] = len(now) != len(before) or not all(map(is_, now, before))
            self._bases[basis] = now
        return changed

    def _column(self, place: int, column: tuple[Value, ...]) -> bytes:
        """Return the lines of one quantity or counter of all GPUs.

        Only finite numbers are readings, and OpenMetrics refuses a page with a negative counter. The sum and the
        minimum of a column, computed in C, show whether every value must be checked.
        """
        prefix, least = _COLUMNS[place]
        numbers = cast("tuple[float, ...]", column)  # or a TypeError
        try:
            whole = isfinite(sum(numbers)) and min(numbers) >= least
        except TypeError:
            whole = False
        if not whole or place not in self._written:
            self._written.add(place)
            return _encoded(
                f"{prefix}{label}{value!r}\n"
                for label, value in zip(self._labels, column, strict=True)
                if value is not None and isfinite(value) and value >= least
            )
        template = self._column_templates.get(place)
        if template is None:
            template = _template(prefix + label for label in self._labels)
            self._column_templates[place] = template
        return template % column

    def _derived(self, place: int, samples: Sequence[Samples]) -> bytes:
        """Return the lines of one derived family of all GPUs."""
        family = DERIVED[place]
        numbers = tuple(chain.from_iterable([values for _, values in samples]))
        if not all(map(isfinite, numbers)):
            return self._derived(place, [_finite(each) for each in samples])
        shape = tuple([labels for labels, _ in samples])
        known, template = self._derived_templates.get(place, _NO_TEMPLATE)
        if shape == known and template:
            return template % numbers
        starts = [
            _start(family, own) + label for label, labels in zip(self._labels, shape, strict=True) for own in labels
        ]
        self._derived_templates[place] = (shape, _template(starts) if shape == known else b"")
        return _encoded(f"{start}{number!r}\n" for start, number in zip(starts, numbers, strict=True))


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
    return _encoded(start.replace("%", "%%") + "%a\n" for start in starts)


def _encoded(lines: Iterable[str]) -> bytes:
    # A label may hold half a surrogate pair, which UTF-8 cannot; it must not cost the page.
    return "".join(lines).encode("utf-8", "replace")
