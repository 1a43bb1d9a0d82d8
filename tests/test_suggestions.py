"""One "did you mean" for every error message."""

from __future__ import annotations

import pytest

from pulsed.errors import did_you_mean, nearest

KEYS = ("listen", "source", "source.interval", "source.exporter", "source.exporter.targets", "X-Frame-Options")


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("listn", "listen"),
        ("LISTEN", "listen"),
        ("x-frame-option", "X-Frame-Options"),
        ("source.intervall", "source.interval"),
        ("targets", "source.exporter.targets"),
        ("source.target", "source.exporter.targets"),
        ("zzzzzz", None),
    ],
)
def test_the_nearest_known_word(word: str, known: str | None) -> None:
    assert nearest(word, KEYS) == known


def test_a_question_or_what_is_allowed() -> None:
    assert did_you_mean("listn", KEYS, "see docs/configuration.md") == "did you mean listen?"
    assert did_you_mean("zzzzzz", KEYS, "see docs/configuration.md") == "see docs/configuration.md"
