"""What boards of each architecture answer to NVML's calls: keys of the stand-in's scenario, values in NVML's units.

A call that an architecture lacks is left out: the stand-in then answers NOT_SUPPORTED. Figures are plausible, and made
up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Answers = dict[str, float | str]

GIB = 2**30
MIB = 2**20


def uuid_of(index: int) -> str:
    return f"GPU-5e1f0000-0000-4000-8000-{index:012d}"


def pascal(index: int = 0) -> Answers:
    """A Tesla P100: no field for power or energy, no GPM, retired pages, no remapped rows."""
    return {
        "uuid": uuid_of(index),
        "name": "Tesla P100-PCIE-16GB",
        "pci": f"0000{index:04X}:3B:00.0",
        "minor": index,
        "memory.total": 16 * GIB,
        "memory.reserved": 200 * MIB,
        "memory.used": 4 * GIB,
        "utilization.gpu": 37,
        "utilization.memory": 12,
        "encoder": 0,
        "decoder": 5,
        "clock.1": 1303,
        "clock.2": 715,
        "clock.3": 1164,
        "clock.max.1": 1328,
        "clock.max.2": 715,
        "clock.max.3": 1189,
        "clock.application.1": 1189,
        "clock.application.2": 715,
        "temperature.0": 44,
        "threshold.0": 85,
        "threshold.1": 82,
        "reasons": 0,
        "power": 122_500,
        "power.limit": 250_000,
        "pstate": 0,
        "persistence": 1,
        "pcie.generation": 3,
        "pcie.width": 16,
        "pcie.generation.max": 3,
        "pcie.width.max": 16,
        "processes": "none",
        "processes.graphics": "none",
        "bar1.total": 16 * GIB,
        "bar1.used": 2 * MIB,
        "inforom": 1,
        **dict.fromkeys((f"fi.{number}" for number in (3, 4, 5, 6, 29, 30, 31, 74, 75, 76, 77, 94)), 0),
        "fi.1": 1,
        "fi.2": 1,
        "fi.187": 125_000,
        "fi.188": 250_000,
        "fi.189": 250_000,
        "fi.190": 250_000,
    }


def turing(index: int = 0) -> Answers:
    """A Tesla T4: energy since Volta; no sensor in its memory."""
    return pascal(index) | {"name": "Tesla T4", "memory.total": 15360 * MIB, "fi.83": "9e9+122500", "fan": 0}


def ampere(index: int = 0) -> Answers:
    """An A100: remapped rows instead of retired pages, NVLink, MIG."""
    retired = {f"fi.{number}" for number in (29, 30, 31)}
    return {key: value for key, value in turing(index).items() if key not in retired and key != "fan"} | {
        "name": "NVIDIA A100-SXM4-80GB",
        "memory.total": 81920 * MIB,
        "memory.reserved": 645 * MIB,
        "threshold.2": 95,
        "threshold.3": 85,
        "mig.mode": 0,
        "mig.most": 7,
        "unrepairable": 0,
        "banks.max": 640,
        **dict.fromkeys((f"banks.{kind}" for kind in ("high", "partial", "low", "none")), 0),
        **{f"errors.{type_}.{counter}.7": 0 for type_ in (0, 1) for counter in (0, 1)},
        "fi.82": 52,
        "fi.138": "1000+2e6",
        "fi.139": "2000+1e6",
        **dict.fromkeys((f"fi.{number}" for number in (38, 45, 52, 59, 78, 79, 80, 81, 142, 143, 144, 145)), 0),
        "fi.192": 400_000,
        "fi.185": 310_250,
        "fi.186": 298_125,
    }


def hopper(index: int = 0) -> Answers:
    """An H100: profiling counters, fabric, margin to its own limit of temperature."""
    return ampere(index) | {
        "name": "NVIDIA H100 80GB HBM3",
        "memory.total": 81559 * MIB,
        "memory.reserved": 561 * MIB,
        "memory.used": 40_000 * MIB,
        "clock.1": 1980,
        "clock.2": 2619,
        "clock.max.1": 1980,
        "clock.max.2": 2619,
        "margin": 43,
        "sram.exceeded": 0,
        "pcie.generation": 5,
        "pcie.generation.max": 5,
        "fabric.state": 3,
        "fabric.status": 0,
        "fabric.mask": 0,
        "fabric.summary": 1,
        **dict.fromkeys((f"fi.{number}" for number in (230, 173, 269, 270, 271)), 0),
        "fi.185": 640_250,
        "fi.187": 200_000,
        **dict.fromkeys(("power.limit", "fi.188", "fi.189", "fi.190"), 700_000),
        **dict.fromkeys((f"fi.{number}" for number in (188, 189, 190, 192)), 700_000),
        "gpm": 1,
        **gpm("gpm", gr=98.7, sm=88.3, tensor=61.2, dram=54.7),
    }


def blackwell(index: int = 0) -> Answers:
    """A B200: NVLink 5 has its own counters."""
    old_links = {f"fi.{number}" for number in (38, 45, 52, 59, 138, 139)}
    return {key: value for key, value in hopper(index).items() if key not in old_links} | {
        "name": "NVIDIA B200",
        "memory.total": 183_359 * MIB,
        "fi.202": "1e6+3e9",
        "fi.204": "2e6+2e9",
        **dict.fromkeys((f"fi.{number}" for number in (208, 213, 214, 221)), 0),
    }


def superchip(index: int = 0) -> Answers:
    """A GPU of a GB200 NVL72: a fabric of several nodes, and a place in a rack."""
    return blackwell(index) | {
        "name": "NVIDIA GB200",
        "fabric.cluster": 7,
        "fabric.clique": 32766,
        "platform.serial": "1821225190812",
        "platform.slot": 23,
        "platform.tray": 13,
        "platform.host": 1,
        "platform.module": index + 1,
        **{f"link.{1000 * link + number}": int(number == 165) for link in range(18) for number in (165, 208, 213, 214)},
    }


def vgpu_guest(index: int = 0) -> Answers:
    """A share of an A40 as its guest sees it: no power, temperature, links or errors."""
    kept = ("uuid", "pci", "minor", "utilization", "clock.1", "clock.2", "memory")
    return {key: value for key, value in turing(index).items() if key.startswith(kept)} | {
        "name": "NVIDIA A40-48Q",
        "memory.total": 48 * GIB,
    }


def gpm(prefix: str, *, gr: float, sm: float, tensor: float, dram: float) -> Answers:
    """Profiling counters in GPM's units, percent and MiB/s."""
    shares = {1: gr, 2: sm, 3: 35.1, 4: 13.3, 5: tensor, 6: 0.0, 7: tensor, 9: 0.0, 10: dram, 11: 0.2, 12: 9.4, 13: 2.1}
    rates = {20: 1783.0, 21: 5016.0, 30: 12.0, 60: 29_219.0, 61: 29_154.0}
    return {f"{prefix}.{number}": value for number, value in (shares | rates).items()}


def split(board: Answers, instances: Sequence[tuple[int, str]]) -> Answers:
    """Return a board with MIG instances: `(id of the GPU instance, profile)`, each with one compute instance."""
    hidden = ("utilization", "encoder", "decoder", "memory", "banks")
    answers = {key: value for key, value in board.items() if not key.startswith(hidden)} | {"mig.mode": 1}
    for position, (instance, profile) in enumerate(instances, 1):  # the first position is a hole
        own: Mapping[str, float | str] = {
            "uuid": f"MIG-{str(board['uuid'])[4:12]}-{instance:04x}-4000-8000-000000000000",
            "name": f"{board['name']} MIG {profile}",
            "instance": instance,
            "memory.total": 10 * GIB,
            "memory.reserved": 15 * MIB,
            "memory.used": instance * GIB,
        }
        answers |= {f"mig{position}.{key}": value for key, value in own.items()}
        if "gpm" in board:
            answers |= gpm(f"instance{instance}.gpm", gr=10.0 * instance, sm=9.0, tensor=4.0, dram=8.0)
    return answers
