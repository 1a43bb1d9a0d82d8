from __future__ import annotations

import pytest

from pulsed.terminal.gpu_filter import FilterError, gpu_filter
from tests.gpu_filter_cases import FOUND, REFUSED
from tests.terminal.fleet_model import model

GPUS = model().gpus


@pytest.mark.parametrize("text", FOUND)
def test_what_passes(text: str) -> None:
    test = gpu_filter(text)
    assert " ".join(gpu.name for gpu in GPUS if test(gpu)) == FOUND[text]


def test_a_missing_or_stale_number_passes_no_comparison() -> None:
    below, above = gpu_filter("ru<.5"), gpu_filter("ru>=.5")
    assert [gpu.name for gpu in GPUS if not below(gpu) and not above(gpu)] == ["1", "6", "7:3", "8"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_parsed(text: str) -> None:
    with pytest.raises(FilterError) as error:
        gpu_filter(text)
    assert str(error.value).startswith(REFUSED[text])
