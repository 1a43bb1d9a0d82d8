"""Which DCGM fields are worth watching, in groups that the configuration names.

A fast field is read with every tick, a slow one less often: limits, error counts and settings change by the hour, and
at 10 Hz every column costs. Within a group the more important fields come first, because DCGM versions and GPUs that
cannot deliver all of a list get a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WatchGroup:
    """Fields that are asked for together, by DCGM id.

    Attributes:
        fast: read with every tick.
        slow: read every `source.dcgmi.slow_interval`.
        superchip: read with every tick from superchips alone; other GPUs refuse them.
    """

    meaning: str
    fast: tuple[int, ...]
    slow: tuple[int, ...] = ()
    superchip: tuple[int, ...] = ()


GROUPS: Mapping[str, WatchGroup] = {
    "core": WatchGroup(
        "activity, memory, power, temperature, clocks",
        fast=(
            *(1001, 1002, 1004, 1005, 1003, 1006, 1007, 1008, 1009, 1010, 203, 204),
            *(155, 156, 150, 140, 100, 101, 112, 252, 251, 253),
            *(1014, 1013, 1015, 1016, 190),
        ),
        slow=(1, 54, 113, 114, 164, 160, 161, 162, 163, 110, 111, 66, 67, 74),
        superchip=(1076, 1078),
    ),
    "health": WatchGroup(
        "XID and memory errors, row remapping, throttling, PCIe and fabric state, temperature limits",
        fast=(230, 240, 241),
        slow=(
            *(310, 311, 312, 313, 393, 394, 395, 396, 390, 391, 392, 385, 386, 387, 388, 389),
            *(202, 235, 236, 237, 238, 158, 159, 151, 152, 153, 242, 243, 244, 245, 246, 247, 300, 301, 84, 191),
            *(1420, 1421, 1422, 1423, 1424, 342, 343, 344, 345, 346, 1501, 1507, 1523, 170, 171, 174, 175, 1432),
        ),
    ),
    "nvlink": WatchGroup(
        "NVLink traffic and errors",
        fast=(1011, 1012, 449),
        slow=(409, 419, 429, 439, 497, 498, 499, 1206, 1211, 1212, 1213, 1214),
    ),
    "media": WatchGroup("video encoders and decoders", fast=(206, 207, 102), slow=(115,)),
}
"""The groups in the order of importance; a default installation watches all of them."""


def fields_to_watch(groups: Iterable[str], fields: Iterable[int] = ()) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of `GROUPS` and `fields` to read with every tick, and those to read less often."""
    chosen = [GROUPS[name] for name in groups]
    fast = dict.fromkeys([*(field for group in chosen for field in group.fast), *fields])
    slow = dict.fromkeys(field for group in chosen for field in group.slow)
    return tuple(fast), tuple(field for field in slow if field not in fast)


def superchip_fields(groups: Iterable[str]) -> tuple[int, ...]:
    """Return the ids of `GROUPS` to read with every tick from superchips, beside those of all GPUs."""
    return tuple(dict.fromkeys(field for name in groups for field in GROUPS[name].superchip))
