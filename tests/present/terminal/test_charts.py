from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.number_text import trend
from pulsed.present.terminal.charts import plot
from pulsed.present.terminal.text import bar
from pulsed.present.terminal.view_state import ViewState
from tests.present.terminal.fleet_model import model


@pytest.mark.parametrize("width", [41, 80, 200])
@pytest.mark.parametrize("height", [8, 24, 60])
def test_charts_fit_and_have_a_row_of_each_gpu_or_the_range_and_the_selected_one(width: int, height: int) -> None:
    shown = model()
    lines = plot(shown, ViewState(selected=shown.gpus[2].key), shown.gpus, width, height).lines
    assert {each.cell_len for each in lines} == {width - (width - 2) % 3}
    first = [each.plain.split()[0] for each in lines[1 : 1 + lines.index(lines[-1]) // 3 - 1]]
    assert first == ([gpu.name for gpu in shown.gpus] if height >= 31 else ["lowest", "highest", "2"])


def test_a_gpu_without_history_says_so_and_a_gap_is_empty() -> None:
    shown = model()
    gpus = [replace(shown.gpus[0], history={}), shown.gpus[1]]
    first, second = plot(shown, ViewState(), gpus, 200, 60).lines[1:3]
    assert first.plain.startswith("0 no history")
    assert "▃     ▆" in second.plain


def bar_text(lower: float | None, upper: float | None = None, mark: float | None = None) -> str:
    return bar(12, "compute", lower, upper, mark).plain


def test_bars() -> None:
    assert bar_text(0.5) == "[█████·····]"
    assert bar_text(0.3, 0.6) == "[███▒▒▒····]"
    assert bar_text(0.3, 0.6, 0.9) == "[███▒▒▒··|·]"
    assert bar_text(0.0) == "[▏·········]"
    assert bar_text(0.0, 0.4) == "[▒▒▒▒······]"
    assert bar_text(0.01) == "[█·········]"
    assert bar_text(1.2) == "[██████████]"
    assert bar_text(None) == "[/ / / / / ]"


def test_trends() -> None:
    assert trend([0.0, 0.5, 1.0], 5, 1.0) == "  ▁▅█"
    assert trend([1.0, None, 0.25], 3, 1.0) == "█ ▃"
    assert trend([5.0, 10.0], 2) == "▅█"
    assert trend([], 3) == "   "
    assert trend([0.0, 1.0, None, 1.0, None, None], 3, 1.0) == "▅█ "
