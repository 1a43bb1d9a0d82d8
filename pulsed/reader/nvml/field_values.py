"""NVML's field values: many numbers of a GPU in one call."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import NamedTuple

from pulsed.reader.nvml.library import ENDED, GONE, REFUSALS, UNINITIALIZED
from pulsed.reader.nvml.native_call import Handle, LongCall, native_function

Values = list[float | None]
"""Values of a device in units of DCGM's metrics, each in its place."""

_ALL_LINKS = 0xFFFFFFFF
_ENTRY = "IIqqIIQ"
"""`nvmlFieldValue_t`: field, scope, timestamp, latency, type, return value, and the union of 8 bytes."""

_UNSIGNED_INT, _UNSIGNED_LONG_LONG = 1, 3
_DECODERS = ("d", "I", "Q", "Q", "q", "i", "H")
"""The value in the union, in terms of `struct`, by `nvmlValueType_t`."""

EVERY = FAST, SPACED, SECOND, SLOW, RARE = 0.0, 0.11, 1.0, 10.0, 60.0
"""How often something is read, seconds; 0: with every tick. SLOW stands for the configured slow interval.

SPACED is for what the driver counts or averages over a second, and for the memory's temperature: at up to 9 Hz with
every tick, at 10 Hz with every second one, as profiling counters are. The values hold for two ticks then; counters lose
nothing.
"""


class FieldValue(NamedTuple):
    """A field id of NVML.

    Attributes:
        name: DCGM's metric with the same meaning.
        divide: NVML's unit by that metric's.
        type: `nvmlValueType_t`; None: as the driver states.
    """

    id: int
    name: str
    every: float
    divide: float = 1.0
    scope: int = 0
    type: int | None = None


FIELD_VALUES: tuple[FieldValue, ...] = (
    FieldValue(82, "DCGM_FI_DEV_MEMORY_TEMP", SPACED, type=_UNSIGNED_INT),  # driver 545 states double
    FieldValue(83, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", SPACED),
    FieldValue(185, "DCGM_FI_DEV_POWER_USAGE", SPACED, 1000.0),
    FieldValue(186, "DCGM_FI_DEV_POWER_USAGE_INSTANT", SPACED, 1000.0),
    FieldValue(202, "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", SPACED, scope=_ALL_LINKS),
    FieldValue(204, "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", SPACED, scope=_ALL_LINKS),
    FieldValue(138, "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", SPACED, 1 / 1024, _ALL_LINKS),
    FieldValue(139, "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", SPACED, 1 / 1024, _ALL_LINKS),
    FieldValue(74, "DCGM_FI_DEV_POWER_VIOLATION", SPACED),
    FieldValue(75, "DCGM_FI_DEV_THERMAL_VIOLATION", SPACED),
    FieldValue(76, "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", SLOW),
    FieldValue(77, "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", SLOW),
    FieldValue(78, "DCGM_FI_DEV_LOW_UTIL_VIOLATION", SLOW),
    FieldValue(79, "DCGM_FI_DEV_RELIABILITY_VIOLATION", SLOW),
    FieldValue(80, "DCGM_FI_DEV_TOTAL_APP_CLOCKS_VIOLATION", SLOW),
    FieldValue(81, "DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION", SLOW),
    FieldValue(74, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", SLOW),
    FieldValue(76, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", SLOW),
    FieldValue(269, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", SLOW),
    FieldValue(270, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", SLOW),
    FieldValue(271, "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", SLOW),
    FieldValue(187, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", SLOW, 1000.0),
    FieldValue(188, "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", SLOW, 1000.0),
    FieldValue(189, "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", SLOW, 1000.0),
    FieldValue(190, "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", SLOW, 1000.0),
    FieldValue(192, "DCGM_FI_DEV_POWER_MGMT_LIMIT", SLOW, 1000.0),
    FieldValue(1, "DCGM_FI_DEV_ECC_CURRENT", SLOW),
    FieldValue(2, "DCGM_FI_DEV_ECC_PENDING", SLOW),
    FieldValue(3, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", SLOW),
    FieldValue(4, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", SLOW),
    FieldValue(5, "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", SLOW),
    FieldValue(6, "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", SLOW),
    FieldValue(142, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", SLOW),
    FieldValue(143, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", SLOW),
    FieldValue(144, "DCGM_FI_DEV_ROW_REMAP_PENDING", SLOW),
    FieldValue(145, "DCGM_FI_DEV_ROW_REMAP_FAILURE", SLOW),
    FieldValue(230, "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", SLOW),
    FieldValue(94, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", SLOW),
    FieldValue(173, "DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS", SLOW),
    FieldValue(38, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", SLOW),
    FieldValue(45, "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", SLOW),
    FieldValue(52, "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", SLOW),
    FieldValue(59, "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", SLOW),
    FieldValue(208, "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", SLOW, scope=_ALL_LINKS),
    FieldValue(213, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", SLOW, scope=_ALL_LINKS),
    FieldValue(214, "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", SLOW, scope=_ALL_LINKS),
    FieldValue(221, "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", SLOW, scope=_ALL_LINKS),
    FieldValue(29, "DCGM_FI_DEV_RETIRED_SBE", RARE),
    FieldValue(30, "DCGM_FI_DEV_RETIRED_DBE", RARE),
    FieldValue(31, "DCGM_FI_DEV_RETIRED_PENDING", RARE),
)
"""Of several rows with the same name, the first that has a value counts."""


class FieldBatch:
    """One call for the values of several fields. A field that the driver refuses is left out from then on.

    Args:
        fields: what is read.
        places: of the metrics in the lists that `decode` fills.

    Attributes:
        names: the metrics of the fields that are still read.
    """

    def __init__(
        self, nvml: ModuleType, handle: Handle, fields: Sequence[FieldValue], places: Mapping[str, int]
    ) -> None:
        self._nvml, self._handle, self._places = nvml, handle, places
        self._function = native_function(nvml, "nvmlDeviceGetFieldValues")
        self._choose(fields)

    def _choose(self, fields: Sequence[FieldValue]) -> None:
        self._fields = tuple(fields)
        self.names = tuple(field.name for field in fields)
        self._columns = [(self._places[field.name], field.divide, field.type) for field in fields]
        # Entries may come back untouched, so that every call begins with blanks.
        self._blank = b"".join(struct.pack(_ENTRY, each.id, each.scope, 0, 0, 0, 0, 0) for each in fields)
        self._entries = ctypes.create_string_buffer(self._blank, len(self._blank))
        self._call = LongCall(partial(self._function, self._handle, ctypes.c_int(len(fields)), self._entries))
        self._unpack = struct.Struct(_ENTRY * len(fields)).unpack_from

    def prepare(self) -> LongCall | None:
        """Return the call that reads the fields, for `decode`; None if the driver refuses all of them."""
        if not self._fields:
            return None
        ctypes.memmove(self._entries, self._blank, len(self._blank))
        return self._call

    def decode(self, values: Values) -> None:
        """Set the values of the fields that are None; those of fields without a value are left as they are.

        Raises:
            NVMLError: the call failed as a whole, or the GPU or the driver is gone.
        """
        if not self._fields:
            return
        error = self._nvml.NVMLError
        if self._call.code:
            raise error(self._call.code)
        flat = self._unpack(self._entries)
        codes = flat[5::7]
        for (place, divide, expected), timestamp, type_, code, raw in zip(
            self._columns, flat[2::7], flat[4::7], codes, flat[6::7], strict=True
        ):
            if code == 0:
                if values[place] is None and (timestamp or type_):
                    type_ = type_ if expected is None else expected
                    values[place] = (raw if type_ == _UNSIGNED_LONG_LONG else _decoded(raw, type_)) / divide
            elif code in GONE or (code in ENDED and code != UNINITIALIZED):
                raise error(code)
        if not REFUSALS.isdisjoint(codes):
            self._choose([field for field, code in zip(self._fields, codes, strict=True) if code not in REFUSALS])


def _decoded(raw: int, type_: int) -> float:
    """Return the number in a union of which `raw` are the 8 bytes; NaN for a type that does not exist."""
    if type_ >= len(_DECODERS):
        return math.nan
    return float(struct.unpack_from(_DECODERS[type_], struct.pack("Q", raw))[0])
