"""NVML's call that returns the values of many fields of a device at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pulsed.reader.nvml.calls import FieldValue
from pulsed.reader.nvml.library import ENDED, GONE, REFUSALS, UNINITIALIZED, Handle, call, is_refused

Values = dict[str, float | None]
"""DCGM's metrics of a device, in their units; None is missing."""

_UNION = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of the union that has the value, by `nvmlValueType_t`."""


class FieldReader:
    """Reads several fields. A field that the driver refuses is left out from then on."""

    def __init__(self, nvml: ModuleType, handle: Handle, fields: Sequence[FieldValue]) -> None:
        self._nvml, self._handle, self._fields = nvml, handle, tuple(fields)

    @property
    def names(self) -> Sequence[str]:
        """The metrics of the fields that are still read."""
        return [field.name for field in self._fields]

    def read(self, values: Values) -> None:
        """Set the values of the fields that are None; fields without a value are left as they are.

        Raises:
            NVMLError: the GPU or the driver is gone.
        """
        if not self._fields:
            return
        requested = [(field.id, field.scope) for field in self._fields]
        try:
            answers = call(self._nvml, "nvmlDeviceGetFieldValues", self._handle, requested)
        except self._nvml.NVMLError as error:
            if is_refused(error):
                self._fields = ()
            return
        kept = []
        for field, answer in zip(self._fields, answers, strict=True):
            code = answer.nvmlReturn
            if code in GONE or (code in ENDED and code != UNINITIALIZED):
                raise self._nvml.NVMLError(code)
            # An entry that the driver left untouched has neither a time nor a type.
            if code == 0 and values[field.name] is None and (answer.timestamp or answer.valueType):
                type_ = answer.valueType if field.type is None else field.type
                values[field.name] = _number(answer.value, type_) / field.divide
            if code not in REFUSALS:
                kept.append(field)
        self._fields = tuple(kept)


def _number(value: Any, type_: int) -> float:
    """Return the number in a union; NaN for a type that does not exist."""
    return float(getattr(value, _UNION[type_])) if type_ < len(_UNION) else math.nan
