"""The number of GPUs that a host should have, as it is written."""

from __future__ import annotations

import pytest

from pulsed.config.configuration import Config, load
from pulsed.errors import ConfigError


def _config(text: str) -> Config:
    return load(None, [f"health.expected_gpus={text}"], {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", 8),
        ("1", 1),
        ("auto", "auto"),
        ("8 NVIDIA L40S, 2 NVIDIA L4", {"NVIDIA L40S": 8, "NVIDIA L4": 2}),
    ],
)
def test_expected_gpus_are_a_number_or_numbers_of_models(text: str, expected: object) -> None:
    found = _config(text).health.expected_gpus
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("text", ["0", "-1", "true", "1.5", "L40S", "0 L40S", "8 L40S,"])
def test_other_expected_gpus_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"health\.expected_gpus"):
        _config(text)
