from __future__ import annotations

import pynvml

from pulsed.reader.nvml.calls import CALLS, FIELD_VALUES, GPM_METRICS, MEMORY_V2
from pulsed.translate.fields import BY_NAME
from tests.reader.nvml.sessions import reading
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import LoadedStandin


def test_the_version_of_a_structure_is_that_of_nvidia_ml_py() -> None:
    assert pynvml.nvmlMemory_v2 == MEMORY_V2


def test_every_call_has_a_value_on_some_architecture(nvml: LoadedStandin) -> None:
    makers = (boards.pascal, boards.turing, boards.ampere, boards.hopper, boards.blackwell)
    nvml.gpus = [make(index) | {"energy": 1, "fan": 30} for index, make in enumerate(makers)]
    nvml.write()
    with reading() as reader:
        layout, values, *_ = reader.session.tick()
    with_value = {series.name for series, value in zip(layout.series, values, strict=True) if value is not None}
    assert {name for row in CALLS for name in row.names} <= with_value


def test_every_value_has_the_name_of_a_field_of_dcgm() -> None:
    names = {name for row in CALLS for name in row.names}
    names |= {field.name for field in FIELD_VALUES} | {metric.name for metric in GPM_METRICS}
    assert names <= BY_NAME.keys()
