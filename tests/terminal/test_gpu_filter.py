from __future__ import annotations

import pytest

from pulsed.terminal.gpu_filter import FilterError, gpu_filter
from tests.terminal.fleet_model import model

GPUS = model().gpus


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "0 1 2 3 4 5 6 7:3 8"),
        ("ru<.1", "3 4"),
        ("ru<10%", "3 4"),
        ("ru < 10", "3 4"),
        ("ru<.2 & class!=idle", "5"),
        ("ru=0 & owner~4711", "3"),
        ("use=held", "3"),
        ("use=free | health=warn", "2 4"),
        ("(ru>=.6 | ru<=0) & !use=free", "0 2 3"),
        ("tensor=--", "1 6 7:3"),
        ("tensor!=-- & power<100", "3 4"),
        ("stale=yes", "8"),
        ("gpu=7:3", "7:3"),
        ("owner~train-0", "1 2"),
        ("4711 idle", "3"),
        ("class=memory_bound", "2"),
        ("bottleneck==io", "5"),
        ("temp>60 power>400 gpu=0", "0"),
    ],
)
def test_what_passes(text: str, names: str) -> None:
    test = gpu_filter(text)
    assert " ".join(gpu.name for gpu in GPUS if test(gpu)) == names


def test_a_missing_or_stale_number_passes_no_comparison() -> None:
    below, above = gpu_filter("ru<.5"), gpu_filter("ru>=.5")
    assert [gpu.name for gpu in GPUS if not below(gpu) and not above(gpu)] == ["1", "6", "7:3", "8"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ru<", "a value after ru is missing"),
        ("ru<x", "ru: 'x' is not a number"),
        ("rux<1", "there is no 'rux'; there are ru, util"),
        ("class<idle", "class is a text; use = != or ~"),
        ("(ru<1", "a parenthesis is not closed"),
        ("ru<1)", "unexpected ')'"),
        ("& ru<1", "a name is missing"),
        ("!", "a name is missing"),
        ("a " * 501, "longer than 1000 characters"),
        ("!" * 51 + "a", "more than 50 of ! and ("),
        ("(" * 51 + "a" + ")" * 51, "more than 50 of ! and ("),
    ],
)
def test_what_cannot_be_parsed(text: str, message: str) -> None:
    with pytest.raises(FilterError) as error:
        gpu_filter(text)
    assert message in str(error.value)
