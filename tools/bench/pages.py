"""dcgm-exporter pages made in code, for benchmarks and for tests that need a big one.

The names are DCGM's, the row shape is that of dcgm-exporter 4.x: HELP and TYPE before each family, rows by GPU, values
`%d` for integer fields and `%f` for doubles. Everything is a pure function of the arguments.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import NamedTuple

from tests.support import streams
from tests.support.streams import NOISE, StreamName

MODEL = "NVIDIA H100 80GB HBM3"
DRIVER = "580.105.08"
SAMPLE_SECONDS = 15
FB_TOTAL_MIB = 81559


class Load(NamedTuple):
    """What one GPU does in one sample: the few numbers that all its fields follow from."""

    seed: int
    graphics: float
    sm: float
    occupancy: float
    tensor: float
    dram: float
    watts: float
    traffic: float
    used_mib: int


class Field(NamedTuple):
    """One family of the page: `value` is an int for DCGM's int64 fields and a float for its doubles."""

    number: int
    name: str
    type: str
    help: str
    value: Callable[[Load], int | float]


def _zero(_: Load) -> int:
    return 0


# The forty fields that operators enable most, then those that the larger CSV files add. Order: how widely used.
FIELDS: tuple[Field, ...] = (
    Field(100, "DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", lambda load: 1980 - int(load.tensor * 300)),
    Field(101, "DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", lambda load: 2619),
    Field(140, "DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", lambda load: 40 + int(load.watts / 14)),
    Field(150, "DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", lambda load: 28 + int(load.watts / 16)),
    Field(155, "DEV_POWER_USAGE", "gauge", "Power draw (in W).", lambda load: load.watts),
    Field(
        156,
        "DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "Total energy consumption since boot (in mJ).",
        lambda load: 319159391000 + load.seed * SAMPLE_SECONDS * 450_000 + int(load.watts),
    ),
    Field(202, "DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", _zero),
    Field(203, "DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", lambda load: min(100, int(load.graphics * 101))),
    Field(204, "DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", lambda load: int(load.dram * 100)),
    Field(206, "DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).", _zero),
    Field(207, "DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).", _zero),
    Field(230, "DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", _zero),
    Field(
        251,
        "DEV_FB_FREE",
        "gauge",
        "Framebuffer memory free (in MiB).",
        lambda load: FB_TOTAL_MIB - 551 - load.used_mib,
    ),
    Field(252, "DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", lambda load: load.used_mib),
    Field(253, "DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", lambda load: 551),
    Field(
        393,
        "DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "Number of remapped rows for uncorrectable errors",
        _zero,
    ),
    Field(394, "DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors", _zero),
    Field(395, "DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", _zero),
    Field(
        449,
        "DEV_NVLINK_BANDWIDTH_TOTAL",
        "counter",
        "Total number of NVLink bandwidth counters for all lanes.",
        lambda load: int(load.traffic * 9),
    ),
    Field(
        1001,
        "PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "Ratio of time the graphics engine is active.",
        lambda load: load.graphics,
    ),
    Field(
        1002,
        "PROF_SM_ACTIVE",
        "gauge",
        "The ratio of cycles an SM has at least 1 warp assigned.",
        lambda load: load.sm,
    ),
    Field(
        1003,
        "PROF_SM_OCCUPANCY",
        "gauge",
        "The ratio of number of warps resident on an SM.",
        lambda load: load.occupancy,
    ),
    Field(
        1004,
        "PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        lambda load: load.tensor,
    ),
    Field(
        1005,
        "PROF_DRAM_ACTIVE",
        "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.",
        lambda load: load.dram,
    ),
    Field(
        1006,
        "PROF_PIPE_FP64_ACTIVE",
        "gauge",
        "Ratio of cycles the fp64 pipes are active.",
        lambda load: load.sm * 0.01,
    ),
    Field(
        1007,
        "PROF_PIPE_FP32_ACTIVE",
        "gauge",
        "Ratio of cycles the fp32 pipes are active.",
        lambda load: load.sm * 0.21,
    ),
    Field(
        1008,
        "PROF_PIPE_FP16_ACTIVE",
        "gauge",
        "Ratio of cycles the fp16 pipes are active.",
        lambda load: load.sm * 0.04,
    ),
    Field(
        1009,
        "PROF_PCIE_TX_BYTES",
        "gauge",
        "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - "
        "in bytes per second.",
        lambda load: int(load.traffic * 2e6),
    ),
    Field(
        1010,
        "PROF_PCIE_RX_BYTES",
        "gauge",
        "The rate of data received over the PCIe bus - including both protocol headers and data payloads - "
        "in bytes per second.",
        lambda load: int(load.traffic * 5e6),
    ),
    Field(
        1011,
        "PROF_NVLINK_TX_BYTES",
        "gauge",
        "The rate of data transmitted over NVLink in bytes per second.",
        lambda load: int(load.traffic * 9.1e8),
    ),
    Field(
        1012,
        "PROF_NVLINK_RX_BYTES",
        "gauge",
        "The rate of data received over NVLink in bytes per second.",
        lambda load: int(load.traffic * 9e8),
    ),
    Field(112, "DEV_CLOCKS_EVENT_REASONS", "gauge", "Reasons for the current clocks (bitmask).", _zero),
    Field(164, "DEV_ENFORCED_POWER_LIMIT", "gauge", "Enforced power limit (in W).", lambda load: 700.0),
    Field(
        240,
        "DEV_POWER_VIOLATION",
        "counter",
        "Throttling duration due to power constraints (in ns).",
        lambda load: load.seed * 1_200_000_000,
    ),
    Field(241, "DEV_THERMAL_VIOLATION", "counter", "Throttling duration due to thermal constraints (in ns).", _zero),
    Field(310, "DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors.", _zero),
    Field(311, "DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors.", _zero),
    Field(396, "DEV_ROW_REMAP_PENDING", "gauge", "Whether a row remapping waits for a reset", _zero),
    Field(
        409,
        "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "counter",
        "Total number of NVLink flow-control CRC errors.",
        _zero,
    ),
    Field(429, "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink retries.", _zero),
    # beyond forty
    Field(113, "DEV_MAX_SM_CLOCK", "gauge", "Maximum SM clock frequency (in MHz).", lambda load: 1980),
    Field(158, "DEV_SLOWDOWN_TEMP", "gauge", "Slowdown temperature (in C).", lambda load: 92),
    Field(159, "DEV_SHUTDOWN_TEMP", "gauge", "Shutdown temperature (in C).", lambda load: 95),
    Field(160, "DEV_POWER_MGMT_LIMIT", "gauge", "Power management limit (in W).", lambda load: 700.0),
    Field(190, "DEV_PSTATE", "gauge", "Performance state.", _zero),
    Field(235, "DEV_PCIE_MAX_LINK_GEN", "gauge", "Maximum PCIe link generation.", lambda load: 5),
    Field(236, "DEV_PCIE_MAX_LINK_WIDTH", "gauge", "Maximum PCIe link width.", lambda load: 16),
    Field(237, "DEV_PCIE_LINK_GEN", "gauge", "PCIe link generation.", lambda load: 5),
    Field(238, "DEV_PCIE_LINK_WIDTH", "gauge", "PCIe link width.", lambda load: 16),
    Field(250, "DEV_FB_TOTAL", "gauge", "Framebuffer memory size (in MiB).", lambda load: FB_TOTAL_MIB),
    Field(312, "DEV_ECC_SBE_AGG_TOTAL", "counter", "Total number of single-bit persistent ECC errors.", _zero),
    Field(313, "DEV_ECC_DBE_AGG_TOTAL", "counter", "Total number of double-bit persistent ECC errors.", _zero),
    Field(390, "DEV_RETIRED_SBE", "counter", "Total number of retired pages due to single-bit errors.", _zero),
    Field(391, "DEV_RETIRED_DBE", "counter", "Total number of retired pages due to double-bit errors.", _zero),
    Field(392, "DEV_RETIRED_PENDING", "counter", "Total number of pages pending retirement.", _zero),
    Field(419, "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink data CRC errors.", _zero),
    Field(439, "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink recovery errors.", _zero),
    Field(157, "DEV_POWER_USAGE_INSTANT", "gauge", "Instant power draw (in W).", lambda load: load.watts * 1.01),
    Field(243, "DEV_BOARD_LIMIT_VIOLATION", "counter", "Throttling duration due to board limits (in ns).", _zero),
    Field(242, "DEV_SYNC_BOOST_VIOLATION", "counter", "Throttling duration due to sync-boost limits (in ns).", _zero),
)


def exporter_page(gpus: int, fields: int = 40, seed: int = 0, node: str = "n0", stream: StreamName = "random") -> bytes:
    """One page as dcgm-exporter 4.x serves it.

    Args:
        gpus: how many GPUs; one row per GPU and field.
        fields: how many families, at most `len(FIELDS)`, the most used ones first.
        seed: which sample. Values differ between seeds and counters grow with them; the series stay the same.
        node: the host name in every row; it also makes the UUIDs differ between nodes.
        stream: how the load of the GPUs goes from sample to sample.

    Raises:
        ValueError: there are not that many fields.
    """
    if fields > len(FIELDS):
        raise ValueError(f"{fields} fields asked for, {len(FIELDS)} are known")
    identities = [_identity(node, gpu) for gpu in range(gpus)]
    loads = [load_of(node, gpu, seed, stream) for gpu in range(gpus)]
    lines: list[str] = []
    for field in sorted(FIELDS[:fields]):
        name = f"DCGM_FI_{field.name}"
        lines += (f"# HELP {name} {field.help}", f"# TYPE {name} {field.type}")
        extra = ',err_code="0",err_msg="No Error"' if field.name == "DEV_XID_ERRORS" else ""
        for identity, load in zip(identities, loads, strict=True):
            value = field.value(load)
            text = f"{value:d}" if isinstance(value, int) else f"{value:f}"
            lines.append(f"{name}{{{identity}{extra}}} {text}")
    return "".join(f"{line}\n" for line in lines).encode()


def _identity(node: str, gpu: int) -> str:
    digest = hashlib.sha256(f"{node}/{gpu}".encode()).hexdigest()
    uuid = f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
    return (
        f'gpu="{gpu}",UUID="{uuid}",pci_bus_id="00000000:{0x1B + 0x11 * gpu & 0xFF:02X}:00.0",device="nvidia{gpu}",'
        f'modelName="{MODEL}",Hostname="{node}",DCGM_FI_DRIVER_VERSION="{DRIVER}"'
    )


def load_of(node: str, gpu: int, seed: int, stream: StreamName = "random") -> Load:
    """Return a load that hardware could have: graphics >= sm >= tensor and occupancy."""
    random_ = random.Random(f"{node}/{gpu}/{seed}")

    def part(usual: float) -> float:
        return random_.random() if stream == "random" else usual + NOISE * random_.random()

    graphics = streams.load(stream, f"{node}/{gpu}", seed)
    sm = graphics * part(0.9)
    tensor = sm * part(0.7)
    return Load(
        seed=seed,
        graphics=graphics,
        sm=sm,
        occupancy=sm * part(0.4),
        tensor=tensor,
        dram=graphics * part(0.6),
        watts=70 + 630 * max(tensor, sm * 0.8),
        traffic=graphics * part(0.5) * 500,
        used_mib=int(graphics * 80000),
    )
