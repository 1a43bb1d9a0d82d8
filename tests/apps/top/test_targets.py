"""Which daemons and which view a command line means."""

from __future__ import annotations

import pytest

from pulsed.apps.top.run import Opening, local_urls, opening, theme_of


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://gpu1:9401", Opening()),
        ("gpu1:9401#/gpu/3", Opening("gpu", "3")),
        ("http://gpu1:9401/p/#/gpu/gpu1:0:3?s=60", Opening("gpu", "gpu1:0:3", 60.0)),
        ("http://gpu1:9401#/plot?s=1800&x=1", Opening("plot", "", 1800.0)),
        ("http://gpu1:9401#/work", Opening("work")),
        ("http://gpu1:9401#/events?s=x", Opening("events")),
        ("http://gpu1:9401#/nothing", Opening()),
    ],
)
def test_fragments_are_those_of_the_web_page(url: str, expected: Opening) -> None:
    assert opening(url) == expected


def test_urls_of_this_host() -> None:
    assert local_urls([":9401"], "") == ["http://localhost:9401"]
    assert local_urls(["unix:/run/p", "10.0.0.1:1", "[::]:2", "[::1]:3"], "/p") == [
        "http://10.0.0.1:1/p",
        "http://localhost:2/p",
        "http://[::1]:3/p",
    ]
    assert local_urls(["unix:/run/p"], "") == ["http://localhost:9401"]


@pytest.mark.parametrize(
    ("variables", "wanted", "is_terminal", "theme"),
    [
        ({}, None, True, "16"),
        ({"COLORTERM": "truecolor"}, None, True, "dark"),
        ({"COLORTERM": "24bit", "COLORFGBG": "0;15"}, None, True, "light"),
        ({"COLORTERM": "truecolor", "COLORFGBG": "15;0"}, None, True, "dark"),
        ({"COLORTERM": "truecolor"}, "16", True, "16"),
        ({"COLORTERM": "truecolor"}, "dark", False, "none"),
        ({"NO_COLOR": "1"}, "dark", True, "none"),
        ({"NO_COLOR": ""}, "light", True, "light"),
        ({"TERM": "dumb"}, None, True, "none"),
    ],
)
def test_themes(variables: dict[str, str], wanted: str | None, is_terminal: bool, theme: str) -> None:
    assert theme_of(variables, wanted, is_terminal=is_terminal) == theme  # type: ignore[arg-type] # a theme as text
