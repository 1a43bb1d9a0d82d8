from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pulsed.number_text import trend
from pulsed.present.terminal.charts import Curve, bar, chart


def text(*values: float | None, width: int = 4, height: int = 1) -> str:
    return "\n".join(each.plain for each in chart([Curve(values, "series0")], width, height, 1.0))


def test_a_chart_is_of_dots_and_a_gap_is_empty() -> None:
    assert text(0, 0, 0, 0, 0, 0, 0, 0) == "⣀⣀⣀⣀"
    assert text(1, 1, 1, 1, 1, 1, 1, 1) == "⠉⠉⠉⠉"
    assert text(1, 1, None, None, None, None, 0, 0) == "⠉  ⣀"
    assert text(*[None] * 8) == "    "
    assert text(0, 1, 0, 1, 0, 1, 0, 1) == "⡸⡾⡾⡾"
    assert text(0, 0, 0, 0, 1, 1, 1, 1, height=2).splitlines() == ["  ⡏⠉", "⣀⣀⠇ "]


@given(st.lists(st.none() | st.floats(allow_nan=False), max_size=40), st.integers(1, 20), st.integers(1, 6))
def test_a_chart_has_its_size(values: list[float | None], width: int, height: int) -> None:
    lines = chart([Curve(values, "series0")], width, height, 1.0)
    assert [each.cell_len for each in lines] == [width] * height


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
