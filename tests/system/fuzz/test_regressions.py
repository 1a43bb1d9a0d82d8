"""Former findings of the fuzzer and its seeds, checked again with a bound on memory, and the fuzzer itself."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tools.fuzz.target import MAX_PEAK_BYTES, FuzzTarget
from tools.fuzz.targets import NAMES, REGRESSIONS, load, regressions

CASES = [pytest.param(name, path, id=f"{name}/{path.name}") for name in NAMES for path in regressions(name)]


def check(target: FuzzTarget, data: bytes) -> None:
    """Check an input twice: the second time, what is made once only is there already, and memory is measured."""
    target.check(data)
    tracemalloc.start()
    try:
        target.outcome(lambda: target.read(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= MAX_PEAK_BYTES, f"{len(data)} bytes took {peak} bytes of memory"


@pytest.mark.parametrize(("name", "path"), CASES)
def test_a_former_finding(name: str, path: Path) -> None:
    check(load(name), path.read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_no_findings(name: str) -> None:
    target = load(name)
    assert target.name == name
    seeds = list(target.seeds())
    assert seeds
    for seed in seeds:
        check(target, seed)


def test_every_case_belongs_to_a_target() -> None:
    assert {path.name for path in REGRESSIONS.iterdir()} <= set(NAMES)
