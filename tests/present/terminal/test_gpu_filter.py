from __future__ import annotations

from collections.abc import Callable

import pytest

from pulsed.present.terminal.model import FleetRow
from pulsed.present.terminal.view_state import FilterError, gpu_filter
from tests.gpu_filter_cases import FOUND, REFUSED
from tests.present.terminal.fleet_model import model


def passing(*tests: Callable[[FleetRow], bool]) -> list[str]:
    return [gpu.name for gpu in model().gpus if any(test(gpu) for test in tests)]


@pytest.mark.parametrize("text", FOUND)
def test_what_passes(text: str) -> None:
    assert " ".join(passing(gpu_filter(text))) == FOUND[text]


def test_a_missing_or_stale_number_passes_no_comparison() -> None:
    found = passing(gpu_filter("ru<.5"), gpu_filter("ru>=.5"))
    assert [gpu.name for gpu in model().gpus if gpu.name not in found] == ["1", "6", "7:3", "8"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_parsed(text: str) -> None:
    with pytest.raises(FilterError) as error:
        gpu_filter(text)
    assert str(error.value).startswith(REFUSED[text])
