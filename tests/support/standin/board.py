"""What a GPU answers to each field when a scenario says no more than how busy it is.

Figures are those of an H100 under training; they need be plausible and consistent (energy is the integral of power,
used and free memory are the size), not exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.support.standin.scenario import GPM_ARCHES, PROFILING, UNPROFILED_ARCHES, Gpu, Instance, Scenario
from tests.support.standin.signals import Constant, Counter, Rate, Signal, Stream

BLANK = Constant(None)

# idle and full, by field id; between them the value follows the load.
_FOLLOWS_LOAD: Mapping[int, tuple[float, float]] = {
    100: (345.0, 1980.0),
    101: (2619.0, 2619.0),
    140: (38.0, 78.0),
    150: (31.0, 64.0),
    155: (71.5, 640.25),
    157: (71.5, 652.5),
    190: (8.0, 0.0),
    203: (0.0, 99.0),
    204: (0.0, 58.0),
    206: (0.0, 0.0),
    207: (0.0, 12.0),
    449: (0.0, 41_000.0),
    1001: (0.0, 0.987),
    1002: (0.0, 0.883),
    1003: (0.0, 0.351),
    1004: (0.0, 0.612),
    1005: (0.0, 0.547),
    1006: (0.0, 0.002),
    1007: (0.0, 0.094),
    1008: (0.0, 0.021),
    1009: (498_948.0, 1_870_000_000.0),
    1010: (1_555.0, 5_260_000_000.0),
    1011: (0.0, 30_570_603_980.0),
    1012: (0.0, 30_638_829_242.0),
    1013: (0.0, 0.001),
    1014: (0.0, 0.61),
    1015: (0.0, 0.001),
    1016: (0.0, 0.133),
    1017: (0.0, 0.12),
}

_STEADY: Mapping[int, float] = {
    4: 8,
    65: 0,
    66: 1,
    91: 0,
    112: 0,
    113: 1980,
    114: 2619,
    153: 87,
    158: 89,
    159: 92,
    160: 700.0,
    161: 200.0,
    162: 700.0,
    163: 700.0,
    164: 700.0,
    202: 0,
    235: 5,
    236: 16,
    237: 5,
    238: 16,
    250: 81_559,
    253: 561,
    300: 1,
    301: 1,
    390: 0,
    391: 0,
    392: 0,
    393: 0,
    394: 0,
    395: 0,
    396: 0,
    525: 0,
}

_COUNTS_NOTHING = (
    *range(240, 248),
    *range(310, 346),
    *range(400, 440),
    *range(451, 475),
    *range(481, 487),
    *range(1420, 1425),
)
"""Errors and violations, of which there are none."""

_EVENTS = (230, 450)
"""Until the first event 0, since 4.5 `N/A` (captures of 4.4.1 and 4.5.3)."""

_MILLIJOULES = 1000.0
_PER_NVLINK = range(1040, 1076)
_MEMORY = 250
_ECC = range(310, 346)

# Asked of older GPUs than GPM's, the engine refuses these (-6).
GPM_ONLY = range(1017, 1100)


@dataclass(frozen=True)
class Row:
    """Something that dmon prints a row of.

    Attributes:
        label: as dmon prints it: `GPU 0`, `GPU-I 3`, `GPU-CI 3`.
        index: of its GPU.
        instance: None on a GPU's own row.
        compute: NVML's id of the compute instance, on its row.
    """

    label: str
    index: int
    gpu: Gpu
    instance: Instance | None = None
    compute: int | None = None

    @property
    def is_mig(self) -> bool:
        return self.instance is not None

    @property
    def share(self) -> float:
        """Of the GPU's memory, 0 to 1."""
        return int(self.instance.profile[0]) / 8 if self.instance else 1.0


def uuid_of(gpu: Gpu, index: int) -> str:
    """The GPU's UUID, made from its index unless given."""
    return gpu.uuid or f"GPU-{0x8F2C1A44 + index:08x}-9b0d-5e17-a3c8-6d21e4b7f{index:03x}"


def mig_uuid_of(gpu: Gpu, index: int, instance: Instance, compute: int) -> str:
    """The UUID of a MIG device, in the form that drivers print since R470."""
    return f"MIG-{uuid_of(gpu, index)[4:12]}-{instance.id:04x}-{compute:04x}-a3c8-6d21e4b7f{index:03x}"


def bus_id_of(gpu: Gpu, index: int) -> str:
    """The PCI address as DCGM prints it, made from the index unless given."""
    return gpu.bus_id or f"00000000:{0x1B + 0x10 * index:02X}:00.0"


def signal_of(scenario: Scenario, row: Row, field_id: int, kind: str) -> Signal:
    """What the row's cell of this field shows over time."""
    for entity in (row.label, "*"):
        if field_id in scenario.values.get(entity, {}):
            return scenario.values[entity][field_id]
    if kind == "string":
        return _text(scenario, row, field_id)
    if row.gpu.state == "blank" or scenario.all_blank or field_id in scenario.blank_fields:
        return BLANK
    return _number(scenario, row, field_id)


def _text(scenario: Scenario, row: Row, field_id: int) -> Signal:
    uuid = uuid_of(row.gpu, row.index)
    if row.instance is not None:
        uuid = mig_uuid_of(row.gpu, row.index, row.instance, row.compute or 0)
    texts = {
        1: scenario.driver,
        2: f"12.{scenario.driver}",
        50: row.gpu.model,
        53: f"16529230{row.index:05d}",
        54: uuid,
        57: bus_id_of(row.gpu, row.index),
        85: "96.00.74.00.01",
    }
    return Constant(texts.get(field_id))


def _number(scenario: Scenario, row: Row, field_id: int) -> Signal:
    gpu = row.gpu
    load = gpu.load if gpu.load is not None else scenario.load
    if not _answers(row, field_id):
        return BLANK
    if field_id == 230 and gpu.xid is not None:
        return Constant(gpu.xid)
    if field_id in _EVENTS:
        return BLANK if scenario.release >= (4, 5) else Constant(0)
    if field_id == 67:
        return Constant(1 if gpu.instances else 0)
    if field_id == 94:
        return Constant(1 if gpu.arch in GPM_ARCHES else 0)
    if field_id == 156:
        idle, full = _FOLLOWS_LOAD[155]
        watts = _of_field(load, row, 155)
        return Counter(watts.between(idle * _MILLIJOULES, full * _MILLIJOULES), since=scenario.booted)
    if field_id in (250, 251, 252, 254):
        return _memory(row, field_id, load)
    if field_id in _PER_NVLINK:
        return _of_field(load, row, field_id).between(0.0, _FOLLOWS_LOAD[1011][1] / 18)
    if field_id in _COUNTS_NOTHING:
        return Constant(0)
    if field_id in _FOLLOWS_LOAD:
        return _of_field(load, row, field_id).between(*_FOLLOWS_LOAD[field_id])
    return Constant(_STEADY[field_id]) if field_id in _STEADY else BLANK


def _answers(row: Row, field_id: int) -> bool:
    gpu = row.gpu
    if gpu.arch in UNPROFILED_ARCHES and (field_id in PROFILING or field_id in _ECC):
        return False
    if row.is_mig and field_id in range(1009, 1013):
        return False  # links are the board's, and no instance answers for it
    return not (gpu.instances and field_id == 203)  # no such figure in MIG mode


def _of_field(load: Rate, row: Row, field_id: int) -> Rate:
    return replace(load, gpu=row.index, field=field_id) if isinstance(load, Stream) else load


def _memory(row: Row, field_id: int, load: Rate) -> Signal:
    if isinstance(load, Stream):
        load = Constant(0.75)  # a job keeps its memory
    size, reserved = _STEADY[_MEMORY] * row.share, _STEADY[253] * row.share
    room = size - reserved
    lowest, highest = 0.01, 0.85
    if field_id == 250:
        return Constant(size)
    if field_id == 254:
        return load.between(lowest, highest)
    if field_id == 252:
        return load.between(float(int(lowest * room)), float(int(highest * room)))
    return load.between(float(int(room) - int(lowest * room)), float(int(room) - int(highest * room)))
