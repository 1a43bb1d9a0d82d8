"""Each board by each source: every number that the mock was given, through the real programs."""

from __future__ import annotations

import json
from math import isclose

import pytest

from pulsed.compute.product_parts import missing_from_model
from tests.support.daemon import pulsed
from tests.support.dcgm import BOARDS, running
from tests.support.nightly import nightly_after
from tests.system.dcgm.quantities import IDENTITY, NOT_READ, expected

pytestmark = pytest.mark.slow

SOURCES = ("dcgmi", "exporter", "nvml")
MIN_CELLS = 40


@pytest.mark.parametrize("board", nightly_after(2, ("h100", "t4", *sorted({*BOARDS} - {"h100", "t4"}))))
def test_all_sources_have_what_the_board_has(board: str) -> None:
    with running(board, exporter=True) as dcgm:
        for source in SOURCES:
            result = pulsed("snapshot", *dcgm.serves(source), "--format", "json", **dcgm.variables(source))
            gpus = json.loads(result.stdout)["gpus"]
            assert len(gpus) == 2
            for index, gpu in enumerate(gpus):
                assert {name: gpu[name] for name in IDENTITY} == {
                    name: dcgm.gpu(index, path) for name, path in IDENTITY.items()
                }
                numbers = {name: value for name, value in expected(dcgm, index).items() if name not in NOT_READ[source]}
                assert len(numbers) >= MIN_CELLS
                absent = {
                    name for name in numbers if not numbers[name] and name.startswith(missing_from_model(gpu["model"]))
                }
                assert {gpu["metrics"][name] for name in absent} <= {None}, "a 0 of what the product lacks"
                numbers = {name: value for name, value in numbers.items() if name not in absent}
                wrong = {
                    name: (gpu["metrics"][name], value)
                    for name, value in numbers.items()
                    if gpu["metrics"][name] is None or not isclose(gpu["metrics"][name], value, rel_tol=1e-6)
                }
                assert not wrong, f"{board}, {source}: read, and given"
