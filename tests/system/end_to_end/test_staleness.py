"""Targets that fail, fall silent and come back: nothing old is served as new, and each costs itself only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.daemon import Daemon, serving
from tests.support.exporters import Exporter, exporting, page
from tests.support.waiting import SECONDS
from tests.system.end_to_end.series import rows, values

SM = "pulsed_gpu_sm_active_ratio"
STEADY, FILE, MUTE = 0, 8, 9
TAKEN_AWAY = "7"
"""GPUs of an exporter that always works, of a page in a file, and of an exporter that never answers."""


class Failing(NamedTuple):
    """A way to fail: what is answered, and what pulsed makes of it. Without an answer the request hangs."""

    gpu: int
    status: int
    body: str | None
    reason: str
    words: str


WAYS = {
    "reload": Failing(1, 200, "", "bad_page", "reloading"),
    "html": Failing(2, 200, "<!DOCTYPE html><html><body>Sign in</body></html>", "bad_page", "HTML"),
    "comments": Failing(3, 200, "# nothing here\n", "bad_page", "no sample"),
    "broken": Failing(4, 500, "internal server error\n", "scrape_failed", "500"),
    "gone": Failing(5, 404, "404 page not found\n", "scrape_failed", "404"),
    "hangs": Failing(6, 200, None, "scrape_failed", "did not answer in 1 s"),
}

WELL = {str(gpu) for gpu in (STEADY, FILE, *(way.gpu for way in WAYS.values()))}


class Scene(NamedTuple):
    """A daemon with its targets."""

    daemon: Daemon
    exporters: dict[str, Exporter]
    url: str
    file: Path

    def until(self, wanted: Callable[[str], bool]) -> str:
        """Look at `/metrics` until it is as wanted; all that while the steady GPU is there."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            text = self.daemon.get("/metrics").text
            assert values(text, SM)[str(STEADY)] == 0.5, "one target's trouble took another's series away"
            if wanted(text):
                return text
            time.sleep(0.05)
        raise AssertionError(f"the page never was as wanted:\n{text}\n{self.daemon.log()}")

    def gpu(self, number: int) -> Any:
        return self.daemon.get(f"/gpus/{number}").json()

    def source(self, name: str) -> Any:
        return next(one for one in self.daemon.get("/gpus").json()["sources"] if one["target"] == name)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("staleness")
    exporters = {"mute": Exporter(page(MUTE)), "steady": Exporter(page(STEADY))}
    exporters |= {name: Exporter(page(way.gpu)) for name, way in WAYS.items()}
    exporters["mute"].go.clear()
    file = folder / "page.prom"
    file.write_text(page(FILE))
    with exporting(exporters) as url:
        targets = ", ".join([*(url + name for name in exporters), str(file)])
        with serving(
            folder,
            "--source=exporter",
            f"--set=source.exporter.targets=[{targets}]",
            "--set=source.interval=1s",
            "--set=source.stale_after=2500ms",
        ) as daemon:
            yield Scene(daemon, exporters, url, file)


def up(text: str) -> dict[str, float]:
    return values(text, "pulsed_source_up", "source")


def samples(text: str) -> dict[str, float]:
    return values(text, "pulsed_source_samples_total", "source")


def errors(text: str) -> dict[tuple[str, str], float]:
    return {
        (row.label("source"), row.label("reason")): float(row.value)
        for row in rows(text)
        if row.name == "pulsed_source_errors_total" and row.value != "0"
    }


def shown(text: str) -> set[str]:
    """The GPUs that any GPU series is about, without the one that a test takes away: its counters stay."""
    return {row.label("gpu") for row in rows(text) if row.name.startswith("pulsed_gpu_")} - {TAKEN_AWAY}


def test_one_that_never_answers_delays_no_other(scene: Scene) -> None:
    mute, steady = f"{scene.url}mute", f"{scene.url}steady"
    begun = samples(scene.until(lambda text: shown(text) == WELL))
    text = scene.until(
        lambda text: samples(text)[steady] >= begun[steady] + 2 and (mute, "scrape_failed") in errors(text)
    )
    assert samples(text)[mute] == 0
    assert up(text) == {name: float(name != mute) for name in samples(text)}
    assert scene.source(mute)["up"] is False
    assert scene.source(mute)["last_sample_time"] is None
    assert mute in scene.daemon.get("/gpus").json()["source"]["error"], "the sum of all sources names it"


def test_those_that_fail_are_stale_and_come_back(scene: Scene) -> None:
    scene.until(lambda text: shown(text) == WELL)
    for name, way in WAYS.items():
        exporter = scene.exporters[name]
        exporter.status, exporter.body = way.status, way.body or ""
        if way.body is None:
            exporter.go.clear()
    away = scene.file.with_suffix(".away")
    scene.file.rename(away)

    expected = {scene.url + name: way for name, way in WAYS.items()}
    expected[str(scene.file)] = Failing(FILE, 0, None, "scrape_failed", "cannot read")
    reasons = {(target, way.reason) for target, way in expected.items()}
    text = scene.until(lambda text: shown(text) == {str(STEADY)})
    assert {target for target, value in up(text).items() if value} == {f"{scene.url}steady"}
    for target in expected:
        assert scene.source(target)["up"] is False, "it says the same before a request that hangs is given up"
    text = scene.until(lambda text: reasons <= errors(text).keys())
    for target, way in expected.items():
        assert target in values(text, "pulsed_source_last_sample_timestamp_seconds", "source")
        source = scene.source(target)
        assert source["up"] is False
        assert way.words in source["error"]
        gpu = scene.gpu(way.gpu)
        assert gpu["stale"] is True
        assert gpu["age_seconds"] > 2.5
        assert gpu["metrics"]["sm_active_ratio"] == 0.5, "the API says what it was, and that it is old"
    assert scene.gpu(STEADY)["stale"] is False
    assert scene.daemon.get("/-/ready").status == 200, "some data is fresh"

    for name, way in WAYS.items():
        exporter = scene.exporters[name]
        exporter.status, exporter.body = 200, page(way.gpu, 0.75)
        exporter.go.set()
    away.rename(scene.file)
    text = scene.until(lambda text: shown(text) == WELL)
    for target, way in expected.items():
        assert up(text)[target] == 1
        assert values(text, SM)[str(way.gpu)] == (0.75 if target.startswith(scene.url) else 0.5)
        assert scene.gpu(way.gpu)["stale"] is False
        assert scene.source(target)["error"] is None
    log = scene.daemon.log()
    assert log.count("source works again") == len(expected)
    assert "Traceback" not in log


def test_a_gpu_that_leaves_a_page_is_stale_at_once_and_keeps_its_counters(scene: Scene) -> None:
    exporter = scene.exporters["steady"]

    def has(text: str, name: str) -> bool:
        return any(row.label("gpu") == TAKEN_AWAY for row in rows(text) if row.name == f"pulsed_gpu_{name}")

    exporter.body = page(STEADY) + page(7)
    scene.until(lambda text: has(text, "power_watts"))
    exporter.body = page(STEADY)
    text = scene.until(lambda text: not has(text, "power_watts"))
    assert has(text, "observed_seconds_total")
    assert up(text)[f"{scene.url}steady"] == 1
    assert scene.daemon.get("/gpus/7").json()["stale"]
