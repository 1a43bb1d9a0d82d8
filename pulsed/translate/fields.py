"""DCGM's fields as sources of quantities: `fields.tsv` has a row per field and quantity that it fills.

The only table with DCGM's names; a new DCGM field is one row. Sources: `dcgm_fields.h` up to DCGM 4.6 for ids, names,
short names and units; NVIDIA's field reference for DCGM 4.7's base-unit fields (ids from 1600 on), whose columns in
dmon are not known. The columns of the table:

- id: DCGM's number of the field. Where several fields fill one quantity, the first row that has a value does.
- quantity: the field of `Reading`; of a text (unit `text`), the attribute of a device.
- unit: a key of `units.UNITS`. `>0` before it: DCGM's 0 means that the thing is missing, such as the sensor of memory
  (T4, L4, RTX, vGPU guests), a limit that is not set, a link that is not up (DCGM itself does not guard its
  generation), a size that is not known, or an error rate that is printed with too few decimals (dmon prints three,
  dcgm-exporter before 4.8.3 six).
- level: what the field is about when a GPU is split, see `Level`.
- short: its column in `dcgmi dmon`; empty when not known.
- watch: the group with which `dcgmi` reads it, the list (`fast`, `slow` or `superchip`, see `WatchGroup`), and its
  place there: the more important fields come first, because DCGM versions and GPUs that cannot deliver all of a list
  get a shorter one. Empty for a field that is not watched.
- since: the first dcgm-exporter that certainly accepts it: it takes names from the table of go-dcgm, which follows
  DCGM's headers with some delay. It does not start with an unknown one.
- names: its metric names on a dcgm-exporter page, the classic one first, then names of DCGM 4.6 and of the exporter's
  etc/1.x-compatibility-metrics.csv.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, cast

from pulsed.model.raw_tick import Layout
from pulsed.model.vocabulary import QUANTITIES
from pulsed.translate.units import UNITS, Unit

Level = Literal["board", "instance", "vgpu"]
"""Scope of a field on a split GPU: the whole board (DCGM then answers with the board's value on each MIG
instance), the instance itself, or the vGPU. On a GPU that is not split all are the same."""

FIRST_BASE_UNIT_ID = 1600
"""Fields from here on exist since DCGM 4.7 and are in base units."""


class ExporterVersion(NamedTuple):
    """A version of dcgm-exporter: `4.5.2` of the image tag `4.4.1-4.5.2-ubuntu22.04`, behind the version of DCGM."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return ".".join(map(str, self))


@dataclass(frozen=True, slots=True)
class DcgmField:
    """A DCGM field as the source of a quantity: a row of the table.

    Attributes:
        unit: what DCGM counts it in; a value in that unit's range.
        level: its scope when the GPU is split.
        short: its column in `dcgmi dmon`; empty when not known.
        since: the first dcgm-exporter that certainly accepts it.
        names: its metric names on a dcgm-exporter page, the classic one first.
    """

    id: int
    quantity: str
    unit: Unit
    level: Level
    short: str
    since: ExporterVersion
    names: tuple[str, ...]

    def __str__(self) -> str:
        """Name the field for a person: `1004 PROF_PIPE_TENSOR_ACTIVE`."""
        return f"{self.id} {self.names[0].removeprefix('DCGM_FI_')}"


@dataclass(frozen=True, slots=True)
class WatchGroup:
    """Fields that are asked for together, by DCGM id.

    Limits, error counts and settings change by the hour, and at 10 Hz every column costs.

    Attributes:
        fast: read with every tick.
        slow: read every `source.dcgmi.slow_interval`.
        superchip: read with every tick from superchips alone; other GPUs refuse them.
    """

    meaning: str
    fast: tuple[int, ...]
    slow: tuple[int, ...]
    superchip: tuple[int, ...]


_ROWS = [line.split("\t") for line in Path(__file__).with_name("fields.tsv").read_text("utf-8").splitlines()[1:]]


def _fields() -> Iterable[DcgmField]:
    units = {**UNITS, **{f">0 {key}": unit.not_zero() for key, unit in UNITS.items()}}
    versions: dict[str, ExporterVersion] = {}
    for number, quantity, unit, level, short, _, since, names in _ROWS:
        if unit != "text":
            if since not in versions:
                versions[since] = ExporterVersion(*map(int, since.split(".")))
            version, spellings = versions[since], tuple(names.split(" "))
            yield DcgmField(int(number), quantity, units[unit], cast("Level", level), short, version, spellings)


FIELDS: tuple[DcgmField, ...] = tuple(_fields())
"""The fields with numbers. Where several fill one quantity, the first that has a value does."""

COLUMNS: Mapping[int, str] = {int(row[0]): row[4] for row in _ROWS if row[4]}
"""By id, the field's column in dmon. A second field with the same column has `.2` behind it."""

TEXT_COLUMNS: Mapping[str, str] = {row[4]: row[1] for row in _ROWS if row[2] == "text"}
"""Columns of dmon with text, and the attribute of a device that they fill."""

TEXT_NAMES: Mapping[str, tuple[str, ...]] = {row[1]: tuple(row[7].split(" ")) for row in _ROWS if row[2] == "text"}
"""By attribute of a device, the names of labels of an exporter's page that fill it."""

AMBIGUOUS_NAME = "DCGM_FI_DEV_GPU_UTIL_RATIO"
"""In DCGM 4.6 another name of field 203, in percent; from 4.7 on field 1613, a ratio."""

DERIVED: Mapping[str, str] = {
    "memory_bytes": "memory_used_bytes + memory_free_bytes + memory_reserved_bytes",
    "memory_used_ratio": "memory_used_bytes / memory_bytes",
    "nvlink_crc_errors_total": "nvlink_crc_flit_errors_total + nvlink_crc_data_errors_total",
}
"""Quantities that Translate computes where no field has them (the ratio: where both inputs are present)."""


def _index(key_values: list[tuple[str, DcgmField]]) -> Mapping[str, tuple[DcgmField, ...]]:
    index: dict[str, tuple[DcgmField, ...]] = {}
    for key, field in key_values:
        index[key] = (*index.get(key, ()), field)
    return index


BY_NAME: Mapping[str, tuple[DcgmField, ...]] = _index([(name, field) for field in FIELDS for name in field.names])
"""By metric name of an exporter's page; several when the field fills several quantities."""

_TOTAL = "_total"


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower())


_FOLDED = frozenset(map(_fold, BY_NAME))
_AMBIGUOUS_TOTALS = frozenset(name for name in _FOLDED if name.removesuffix(_TOTAL) in _FOLDED - {name})
"""In lower case, fields whose names differ in a final `_TOTAL` only: a rate, and the counter behind it."""

_SPELLINGS: Mapping[str, str] = {
    **{_fold(name).removesuffix(_TOTAL): name for name in reversed(tuple(BY_NAME))},
    **{_fold(name): name for name in reversed(tuple(BY_NAME))},
}
"""By a name in lower case, also without its final `_total`, the name in the table."""


def spelling(name: str) -> str:
    """Return the name in the table of a metric that a relay has renamed; names of other metrics of DCGM in upper case.

    Collectors change the case, write other separators, and append `_total` to counters (OpenMetrics) or remove it.

    >>> spelling("dcgm.fi.dev.total_energy_consumption_total")
    'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION'
    """
    if name in BY_NAME:
        return name
    folded = _fold(name)
    if folded in _AMBIGUOUS_TOTALS and name.endswith("total"):  # behind upper case it is the relay's
        return name if name.islower() else _SPELLINGS[folded.removesuffix(_TOTAL)]
    known = _SPELLINGS.get(folded) or _SPELLINGS.get(folded.removesuffix(_TOTAL))
    return known or (folded.upper() if folded.startswith("dcgm_") else name)


BY_SHORT: Mapping[str, tuple[DcgmField, ...]] = _index([(field.short, field) for field in FIELDS if field.short])
"""By column of dmon; several when the field fills several quantities."""


def fields_named(name: str) -> tuple[DcgmField, ...]:
    """Return the fields of a metric of an exporter's page, also of one that a relay has renamed; none if unknown."""
    return BY_NAME.get(spelling(name), ())


_BY_QUANTITY = _index([(field.quantity, field) for field in FIELDS])


def sources(quantity: str) -> tuple[DcgmField, ...]:
    """Return the fields that fill a quantity, the preferred one first; none if it is only derived. Raises `KeyError`.

    >>> [str(field) for field in sources("power_limit_watts")]
    ['164 DEV_ENFORCED_POWER_LIMIT', '160 DEV_POWER_MGMT_LIMIT']
    """
    if quantity not in QUANTITIES:
        raise KeyError(quantity)
    return _BY_QUANTITY.get(quantity, ())


def _watch_group(name: str, meaning: str) -> WatchGroup:
    lists: dict[str, dict[int, int]] = {"fast": {}, "slow": {}, "superchip": {}}
    for row in _ROWS:
        if row[5].startswith(f"{name} "):
            _, speed, place = row[5].split(" ")
            lists[speed][int(place)] = int(row[0])
    return WatchGroup(meaning, *(tuple(number for _, number in sorted(each.items())) for each in lists.values()))


GROUPS: Mapping[str, WatchGroup] = {
    name: _watch_group(name, meaning)
    for name, meaning in {
        "core": "activity, memory, power, temperature, clocks",
        "health": "XID and memory errors, row remapping, throttling, PCIe and fabric state, temperature limits",
        "nvlink": "NVLink traffic and errors",
        "media": "video encoders and decoders",
    }.items()
}
"""The groups in the order of importance; a default installation watches all of them."""


def fields_to_watch(groups: Iterable[str], fields: Iterable[int] = ()) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of `GROUPS` and `fields` to read with every tick, and those to read less often."""
    chosen = [GROUPS[name] for name in groups]
    fast = dict.fromkeys([*(field for group in chosen for field in group.fast), *fields])
    slow = dict.fromkeys(field for group in chosen for field in group.slow)
    return tuple(fast), tuple(field for field in slow if field not in fast)


def superchip_fields(groups: Iterable[str]) -> tuple[int, ...]:
    """Return the ids of `GROUPS` to read with every tick from superchips, in addition to the ids of all GPUs."""
    return tuple(dict.fromkeys(field for name in groups for field in GROUPS[name].superchip))


_PROFILING = (range(1001, 1100), range(1532, 1534))


def is_profiling(field: int) -> bool:
    """Return whether a field (`DCGM_FI_PROF_*`) needs the profiling hardware and a privileged engine."""
    return any(field in ids for ids in _PROFILING)


CLASSIC = ExporterVersion(4, 5, 2)
"""The newest version whose list of fields was determined by trying all of them (netdata, DCGM 4.4.1)."""

NEWEST = ExporterVersion(4, 9, 0)

ANY = ExporterVersion(2, 0, 0)
"""Older than every version that matters here."""

_NEW_NAMES = _LOWER_CASE_HOSTNAME = ExporterVersion(4, 8, 3)
_LAST_WITH_HOSTNAME = ExporterVersion(4, 8, 2)
_LAST_WITHOUT_ADDRESS, _FIRST_WITH_ADDRESS = ExporterVersion(3, 4, 2), ExporterVersion(3, 5, 0)

_DCGM_4_0 = ExporterVersion(4, 0, 0)

_CLOCKS_EVENT_REASONS = 112
_BEFORE_DCGM_4 = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"

_TAG = re.compile(r"(?:v?\d+\.\d+\.\d+-)?v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-[a-z].*)?")


def exporter_version(text: str) -> ExporterVersion:
    """Parse a version, or the tag of an image with it. Raises `ValueError`."""
    match = _TAG.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a version of dcgm-exporter; give 4.5.2, or the tag of its image")
    return ExporterVersion(int(match[1]), int(match[2]), int(match[3]))


def name_for(field: DcgmField, oldest: ExporterVersion, newest: ExporterVersion) -> str | None:
    """Return a name of a field that all versions from `oldest` to `newest` accept; None without such a name."""
    if field.since > oldest:
        return None
    if field.id == _CLOCKS_EVENT_REASONS and oldest < _DCGM_4_0:
        return _BEFORE_DCGM_4 if newest < _DCGM_4_0 else None
    return field.names[0]


def versions_of(layout: Layout) -> tuple[ExporterVersion, ExporterVersion] | None:
    """Return the oldest and the newest version of dcgm-exporter that can have made a page; None if none can.

    A relay that has renamed metrics may have renamed labels as well.
    """
    rows = [series for series in layout.series if series.name in BY_NAME and series.name != AMBIGUOUS_NAME]
    if not rows:
        renamed = {spelling(series.name) for series in layout.series} & BY_NAME.keys() - {AMBIGUOUS_NAME}
        return (max(BY_NAME[name][0].since for name in renamed), NEWEST) if renamed else None
    families = list(dict.fromkeys(series.name for series in rows))
    is_sorted = families == sorted(families)  # since 4.8.3
    oldest = [ANY]
    newest = NEWEST
    for series in rows:
        field, labels = BY_NAME[series.name][0], dict(series.labels)
        oldest.append(field.since)
        if series.name.startswith("DCGM_") and series.name not in (field.names[0], _BEFORE_DCGM_4):
            oldest.append(_NEW_NAMES)
        if "nvlink" not in labels and "hostname" in labels:  # dcgm-exporter#655; rows about links had it before
            if is_sorted:
                oldest.append(_LOWER_CASE_HOSTNAME)
            else:  # a build of the main branch before that release
                newest = _LAST_WITH_HOSTNAME
        elif "Hostname" in labels:
            newest = _LAST_WITH_HOSTNAME
        if "pci_bus_id" in labels:
            oldest.append(_FIRST_WITH_ADDRESS)
        if "err_code" in labels:  # dcgm-exporter#309
            oldest.append(ExporterVersion(3, 4, 2))
    if any(_is_without_address(dict(series.labels)) for series in rows):  # dcgm-exporter#326
        newest = _LAST_WITHOUT_ADDRESS
    return max(oldest), max(newest, *oldest)


def _is_without_address(labels: Mapping[str, str]) -> bool:
    """Return whether a row of a GPU has all labels of dcgm-exporter but the one that came with 3.5.0."""
    return {"UUID", "device", "modelName", "Hostname"} <= labels.keys() and "pci_bus_id" not in labels


def in_words(oldest: ExporterVersion, newest: ExporterVersion) -> str:
    """Return a range of versions in words."""
    if oldest == newest:
        return str(oldest)
    if newest == NEWEST:
        return f"{oldest} or newer" if oldest > ANY else "of an unknown version"
    return f"{oldest} to {newest}" if oldest > ANY else f"{newest} or older"
