from __future__ import annotations

import pytest

from pulsed.reader.dcgmi.discovery import described, parse_versions, versions
from support.standin.discovery import long_version
from support.standin.fixture import standin
from support.standin.install import Standin
from support.standin.scenario import Scenario

__all__ = ["standin"]


@pytest.mark.parametrize("version", ["2.1.4", "3.3.9", "4.5.3", "4.7.0"])
def test_both_versions_are_read(version: str) -> None:
    scenario = Scenario(version=version)
    assert parse_versions(long_version(scenario, connected=True)) == (version, version)
    assert parse_versions(long_version(scenario, connected=False)) == (version, "")
    assert parse_versions("dcgmi: command not found") == ("", "")


async def test_who_does_not_answer_has_no_version(standin: Standin) -> None:
    assert await versions(str(standin.path), 10.0) == ("4.4.1", "4.4.1")
    standin.change(engine=False)
    assert await versions(str(standin.path), 10.0) == ("4.4.1", "")
    standin.change(slow_start=60.0)
    assert await versions(str(standin.path), 0.05) == ("", "")


def test_in_words() -> None:
    assert described(("4.4.1", "4.4.0")) == "dcgmi 4.4.1, host engine 4.4.0"
    assert described(("4.4.1", "")) == "dcgmi 4.4.1"
    assert described(("", "")) == ""
