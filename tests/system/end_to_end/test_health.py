"""Health through the whole daemon: the demo's story, latches over a restart, a lost GPU, and who hears of it."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
import urllib.request
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from pulsed.apps.daemon_client import ClientSettings, DaemonClient
from pulsed.apps.health import health
from pulsed.reader.demo.source import DemoSource
from pulsed.reader.record_lines import RecordWriter, Session
from tests.support.daemon import Daemon, pulsed, serving
from tests.support.waiting import SECONDS, until

STORY_SECONDS = 300
"""Of the demo: its sixth GPU has grown warm, hot and critical, its seventh has lost memory."""


def gpu(daemon: Daemon, name: str) -> dict[str, Any]:
    found: dict[str, Any] = daemon.get(f"/gpus/{name}").json()
    return found


def check(daemon: Daemon, name: str, id: str) -> dict[str, Any]:
    (found,) = [one for one in gpu(daemon, name)["health"]["checks"] if one["id"] == id]
    return dict(found)


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """The demo's first minutes as a record, which can be played faster than they happened."""
    path = tmp_path / "demo.rec"
    asyncio.run(_write_story(path))
    return path


async def _write_story(path: Path) -> None:
    source = DemoSource(0, 1.0, pace=False, start=1767225600.0)
    writer = RecordWriter(Session("0", "demo", "node", "2026-01-01T00:00:00Z", {source.target: 1.0}))
    with path.open("wb") as out:
        out.write(writer.start())
        for _ in range(STORY_SECONDS):
            out.write(writer.tick(await source.read()))


def test_the_demos_gpus_grow_hot_and_sick_and_pulsed_health_says_what_to_do(tmp_path: Path, story: Path) -> None:
    flags = ("--source", "replay", "--set", f"source.replay.path={story}", "--set", "source.replay.speed=25")
    heard: list[dict[str, Any]] = []
    with serving(tmp_path, *flags, "--log.format", "json") as daemon:
        url = f"http://{daemon.address}"

        def listen() -> None:
            with urllib.request.urlopen(f"{url}/events?types=health", timeout=SECONDS) as stream:
                heard.extend(json.loads(line[6:]) for line in stream if line.startswith(b"data: "))

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        seen: dict[int, str] = {}
        deadline = time.monotonic() + SECONDS
        while 2 not in seen and time.monotonic() < deadline:
            out = io.StringIO()
            code = health([DaemonClient(url, ClientSettings(SECONDS))], "table", out)
            seen.setdefault(code, out.getvalue())
        assert seen.keys() - {3} == {0, 1, 2}, "3: a busy machine was late with readings"
        assert "OK: 8 ok" in seen[0]
        assert "WARN  temp_margin" in seen[1]
        assert "(negative: exceeded): check fans" in seen[1]
        assert "CRIT  temp_margin" in seen[2]
        assert daemon.stop() == 0
        listener.join(SECONDS)
    states = [event["after"] for event in heard if event["check"] == "temp_margin"]
    assert states[:3] == ["warn", "hot", "crit"]
    logged = [json.loads(line) for line in daemon.log().splitlines()]
    said = [(line["gpu"], line["check"], line["after"]) for line in logged if "check" in line]
    assert {("6", "temp_margin", "crit"), ("7", "row_remap_pending", "warn")} <= set(said)
    assert all(line["remedy"] for line in logged if "check" in line)


HEALTHY = {"DCGM_FI_DEV_XID_ERRORS": 0, "DCGM_FI_DEV_GPU_TEMP": 40, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 10**9}


class Page:
    """A saved page that the daemon reads each second; energy grows as it does on a GPU that is on."""

    def __init__(self, path: Path, first: int = 0) -> None:
        self.path = path
        self.first = first
        self.values = dict(HEALTHY)
        self.gpus = 2
        self.write()

    def write(self, **values: int) -> None:
        self.values |= values
        self.values["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] += 10**5
        text = "".join(
            f'{name}{{gpu="{number}",UUID="GPU-{number}",modelName="NVIDIA H100 80GB HBM3"}} {value}\n'
            for name, value in self.values.items()
            for number in range(self.first, self.first + self.gpus)
        )
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)

    def flags(self, state: Path | None = None) -> list[str]:
        keys = {"source.interval": "1s", "source.exporter.targets": str(self.path)}
        if state is not None:
            keys["state_dir"] = str(state)
        return ["--source", "exporter", *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(tmp_path / "page.prom")


def samples(daemon: Daemon) -> int:
    for line in daemon.get("/metrics").text.splitlines():
        if line.startswith("pulsed_source_samples_total"):
            return int(float(line.rpartition(" ")[2]))
    return 0


def poll(daemon: Daemon, page: Page, times: int = 2) -> None:
    """Let the daemon read the page as it is now, with energy growing."""
    for _ in range(times):
        page.write()
        before = samples(daemon)
        until(lambda before=before: samples(daemon) > before)  # type: ignore[misc]


def test_a_critical_xid_outlives_a_restart(tmp_path: Path, page: Page) -> None:
    state = tmp_path / "state"
    with serving(tmp_path, *page.flags(state)) as daemon:
        poll(daemon, page)
        assert gpu(daemon, "0")["health"]["state"] == "ok"
        page.write(DCGM_FI_DEV_XID_ERRORS=48)
        until(lambda: check(daemon, "0", "xid_critical")["state"] == "crit")
        assert "48" in check(daemon, "0", "xid_critical")["remedy"]
        labels = f'node="{gethostname()}",gpu="0",uuid="GPU-0"'
        assert f"pulsed_gpu_any_xid_events_total{{{labels}}} 1" in daemon.get("/metrics").text
        page.write(DCGM_FI_DEV_XID_ERRORS=45)  # a follower must not hide it
        poll(daemon, page)
        assert check(daemon, "0", "xid_critical")["state"] == "crit"
        since = check(daemon, "0", "xid_critical")["since"]
        assert daemon.stop() == 0
    page.write(DCGM_FI_DEV_XID_ERRORS=0)  # the exporter was restarted, too, and has forgotten
    with serving(tmp_path, *page.flags(state)) as daemon:
        poll(daemon, page)
        latched = check(daemon, "0", "xid_critical")
        assert (latched["state"], latched["since"]) == ("crit", since)
        assert pulsed("health", f"http://{daemon.address}").returncode == 2
        assert daemon.stop() == 0
    with serving(tmp_path, *page.flags()) as daemon:
        poll(daemon, page)
        assert check(daemon, "0", "xid_critical")["state"] == "ok", "nothing is kept without state_dir"


def test_seconds_by_state_never_fall_when_the_daemon_is_killed(tmp_path: Path, page: Page) -> None:
    series = f'pulsed_gpu_health_seconds_total{{state="crit",node="{gethostname()}",gpu="0",uuid="GPU-0"}}'
    state = tmp_path / "state"

    def seconds(daemon: Daemon) -> float:
        lines = daemon.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(series)), 0.0)

    with serving(tmp_path, *page.flags(state), "--set", "publish.series=full") as daemon:
        poll(daemon, page)
        page.write(DCGM_FI_DEV_ROW_REMAP_FAILURE=1)
        until(lambda: seconds(daemon) >= 4.0)
        before, in_json = seconds(daemon), gpu(daemon, "0")["health"]["seconds"]["crit"]
        assert 0.0 <= in_json - before < 60.0
        daemon.process.kill()
        daemon.process.wait()
    with serving(tmp_path, *page.flags(state), "--set", "publish.series=full") as daemon:
        poll(daemon, page)
        assert seconds(daemon) >= before
        assert daemon.stop() == 0


def test_a_broken_state_file_is_set_aside(tmp_path: Path, page: Page) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "state.json").write_text('{"version": 1, "sections": {"heal')
    with serving(tmp_path, *page.flags(state)) as daemon:
        assert "set aside" in daemon.log()
        assert (state / "state.json.broken").exists()
        until(lambda: (state / "state.json").exists())
        assert json.loads((state / "state.json").read_text())["sections"]["health"]


def test_a_gpu_that_vanishes_is_unknown_with_its_last_known_identity(tmp_path: Path, page: Page) -> None:
    with serving(tmp_path, *page.flags()) as daemon:
        poll(daemon, page)
        page.gpus = 1
        page.write()
        until(lambda: gpu(daemon, "1").get("health", {}).get("state") == "unknown")
        lost = gpu(daemon, "1")
        assert (lost["model"], lost["uuid"], lost["stale"]) == ("NVIDIA H100 80GB HBM3", "GPU-1", True)
        assert "no longer lists" in check(daemon, "1", "telemetry")["message"]
        assert gpu(daemon, "0")["health"]["state"] == "ok"
        text = daemon.get("/metrics").text
        labels = f'node="{gethostname()}",gpu="1",uuid="GPU-1"'
        assert f"pulsed_gpu_health_severity{{{labels}}} -1" in text
        assert f'pulsed_gpu_health_check{{check="telemetry",{labels}}} 2' in text
        assert 'pulsed_gpu_temperature_celsius{gpu="1"' not in text, "nothing old is served as new"
        (flat,) = [one for one in daemon.get("/health/gpus").json() if one["gpu"] == "1"]
        assert [each["id"] for each in flat["problems"]] == ["telemetry"]
        page.gpus = 2
        page.write()
        until(lambda: "temperature_celsius" in daemon.get("/metrics").text and not gpu(daemon, "1")["stale"])


def test_an_absent_gpu_is_forgotten_by_request(tmp_path: Path, page: Page) -> None:
    state = tmp_path / "state"
    file = state / "state.json"
    with serving(tmp_path, *page.flags(state), "--web.enable-lifecycle") as daemon:
        url = f"http://{daemon.address}"
        heard: list[dict[str, Any]] = []

        def listen() -> None:
            with urllib.request.urlopen(f"{url}/events?types=removal", timeout=SECONDS) as stream:
                heard.extend(json.loads(line[6:]) for line in stream if line.startswith(b"data: "))

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        poll(daemon, page)
        assert daemon.get("/-/forget?gpu=1").status == 405
        assert daemon.get("/-/forget", method="POST").status == 400
        present = daemon.get("/-/forget?gpu=1", method="POST")
        assert (present.status, "GPU 1 is present" in present.text) == (409, True)
        page.gpus = 1
        page.write()
        until(lambda: gpu(daemon, "1").get("health", {}).get("state") == "unknown")

        def is_remembered() -> bool:
            """Return whether the state of GPUs has it; the time that it was free stays in reports."""
            sections = json.loads(file.read_text())["sections"]
            return '"GPU-1"' in json.dumps({name: each for name, each in sections.items() if name != "accounts"})

        until(is_remembered)
        unknown = pulsed("health", "--forget", "GPU-7", url)
        assert unknown.returncode == 1
        assert (
            f"there is no absent GPU 'GPU-7'. Can be forgotten: GPU-1 (GPU 1 of {gethostname()}, last seen "
            in unknown.stderr
        )
        page.path.unlink()  # nothing is read any more
        elsewhere = pulsed("health", "--forget", "GPU-1", "--node", "other", url)
        assert elsewhere.returncode == 1
        done = pulsed("health", "--forget", "GPU-1", url)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"forgotten: GPU 1 of {gethostname()} GPU-1\n"
        assert daemon.get("/gpus/1").status == 404
        assert daemon.get("/gpus/1/history").status == 404
        rows = daemon.get("/health/gpus").json()  # with one of the node, if this machine has a stuck process
        assert [row["gpu"] for row in rows if row["gpu"] is not None] == ["0"]
        assert daemon.get("/gpus/0/history").json()["time"]
        until(lambda: not is_remembered())
        page.write()
        poll(daemon, page)
        assert 'gpu="1"' not in daemon.get("/metrics").text
        assert pulsed("health", "--forget", "GPU-1", url).returncode == 1
        assert daemon.stop() == 0
        listener.join(SECONDS)
        assert [(one["uuid"], one["reason"]) for one in heard] == [("GPU-1", "forgotten")]
        assert "forgotten by request" in daemon.log()
    with serving(tmp_path, *page.flags(state)) as daemon:
        poll(daemon, page, 3)
        rows = daemon.get("/health/gpus").json()  # with one of the node, if this machine has a stuck process
        assert [row["gpu"] for row in rows if row["gpu"] is not None] == ["0"]
        refused = pulsed("health", "--forget", "GPU-1", f"http://{daemon.address}")
        assert (refused.returncode, "--web.enable-lifecycle" in refused.stderr) == (1, True)
        page.gpus = 2
        page.write()
        until(lambda: gpu(daemon, "1").get("health", {}).get("state") == "ok")


def test_a_gpu_that_another_target_has_taken_over_is_not_lost(tmp_path: Path, page: Page) -> None:
    other = Page(tmp_path / "other.prom", first=2)
    targets = f"source.exporter.targets=[{page.path}, {other.path}]"
    with serving(tmp_path, "--source", "exporter", "--set", "source.interval=1s", "--set", targets) as daemon:
        until(lambda: len(daemon.get("/health/gpus").json()) == 4)
        page.gpus, other.first, other.gpus = 1, 1, 3
        other.write()
        page.write()
        until(lambda: "another target reports it" in daemon.log())
        rows = daemon.get("/health/gpus").json()
        assert {row["gpu"]: row["target"] for row in rows}["1"] == str(other.path)
        poll(daemon, page, 3)
        assert {row["state"] for row in daemon.get("/health/gpus").json()} == {"ok"}


def test_a_target_that_never_answered_is_unknown(tmp_path: Path, page: Page) -> None:
    other = Page(tmp_path / "other.prom", first=2)
    targets = f"source.exporter.targets=[{page.path}, {other.path}, {tmp_path / 'absent.prom'}]"
    with serving(tmp_path, "--source", "exporter", "--set", "source.interval=1s", "--set", targets) as daemon:
        until(lambda: len(daemon.get("/health/gpus").json()) == 5)
        done = pulsed("health", f"http://{daemon.address}")
        assert done.returncode == 3
        assert done.stdout.startswith("UNKNOWN: 4 ok 36/108, 1 unknown (")
        assert "absent.prom  UNKNOWN  telemetry" in done.stdout
        assert "% of the checks have data; 1 without data)" in done.stdout
        page.write(DCGM_FI_DEV_XID_ERRORS=48)
        until(lambda: pulsed("health", f"http://{daemon.address}").returncode == 2)


def test_a_silent_source_leaves_no_check_ok(tmp_path: Path, page: Page) -> None:
    flags = [*page.flags(), "--set", "source.stale_after=2s"]
    with serving(tmp_path, *flags) as daemon:
        poll(daemon, page)
        assert gpu(daemon, "0")["health"]["state"] == "ok"
        page.path.unlink()
        until(lambda: gpu(daemon, "0")["health"]["state"] == "unknown")
        assert {one["state"] for one in gpu(daemon, "0")["health"]["checks"]} == {"unknown"}
        assert pulsed("health", f"http://{daemon.address}").returncode == 3
