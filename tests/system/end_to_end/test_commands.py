"""The commands as a shell runs them: `snapshot`, `export`, `check-config`, and `serve` without its source."""

from __future__ import annotations

import csv
import io
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pulsed.model.vocabulary import QUANTITIES
from pulsed.present.api.documents import GPUS
from tests.support.daemon import environment, pulsed, serving
from tests.support.dmon_writer import ERAS, DmonWriter
from tests.support.documents import has_shape
from tests.support.nightly import nightly_after
from tests.support.prometheus import prometheus
from tests.support.waiting import SECONDS, until

ROOT = Path(__file__).parents[3]

HEADER = [
    *("time", "node", "gpu", "uuid", "mig_id", "mig_profile", "model"),
    *("real_utilization_ratio", "real_utilization_lower_ratio", "real_utilization_upper_ratio"),
    *("real_utilization_coverage_ratio", "workload_class", "raw_class", "bottleneck", "health_state"),
    *("saturation_ratio", "limiting_resource"),
]
"""The columns of `--columns all` before those of the vocabulary, as they were promised."""

PULSED = [sys.executable, "-m", "pulsed"]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Three ticks of two GPUs; GPU 1 has no profiling, and is not there in the last tick."""
    writer = DmonWriter(ERAS["C2"], [1001, 1002, 1004, 1005, 203, 155, 252])
    path = tmp_path / "capture.txt"
    busy, blank = [0.9, 0.8, 0.7, 0.25, 95, 400.5, 1024], [None, None, None, None, 10, 60.25, 0]
    path.write_text(
        writer.header()
        + writer.tick([("GPU 0", busy), ("GPU 1", blank)])
        + writer.tick([("GPU 0", [*busy[:5], 402.75, 2048]), ("GPU 1", blank)])
        + writer.tick([("GPU 0", [*busy[:5], 404.125, 4096])])
    )
    return path


def replay(path: Path, *more: str) -> list[str]:
    return [
        "--source=replay",
        f"--set=source.replay.path={path}",
        "--set=source.replay.speed=0",
        "--set=node=n1",
        *more,
    ]


# --- export


def test_export_of_all_columns(capture: Path) -> None:
    finished = pulsed("export", "--columns=all", *replay(capture))
    assert (finished.returncode, "Traceback" in finished.stderr) == (0, False)
    header, *rows = csv.reader(io.StringIO(finished.stdout))
    assert header == [*HEADER, *QUANTITIES]
    table = [{name: cell for name, cell in zip(header, row, strict=True) if cell} for row in rows]
    common = {"node": "n1", "health_state": "ok"}
    first = {
        **common,
        "time": "2026-01-01T00:00:00.000Z",
        "gpu": "0",
        "real_utilization_coverage_ratio": "1.0",
        "workload_class": "tensor_heavy_compute",
        "raw_class": "tensor_heavy_compute",
        "bottleneck": "compute",
        "saturation_ratio": repr(0.7 / 0.93),
        "limiting_resource": "tensor",
        "graphics_engine_active_ratio": "0.9",
        "sm_active_ratio": "0.8",
        "tensor_active_ratio": "0.7",
        "dram_active_ratio": "0.25",
        "gpu_utilization_ratio": "0.95",
        "power_watts": "400.5",
        "memory_used_bytes": "1073741824.0",
    }
    unknown = {
        **common,
        "time": "2026-01-01T00:00:00.000Z",
        "gpu": "1",
        "real_utilization_coverage_ratio": "0.1",
        "workload_class": "unknown",
        "raw_class": "unknown",
        "bottleneck": "unknown",
        "limiting_resource": "unknown",
        "gpu_utilization_ratio": "0.1",
        "power_watts": "60.25",
        "memory_used_bytes": "0.0",
    }
    utilization = [f"real_utilization_{part}ratio" for part in ("", "lower_", "upper_")]
    found = [[float(row.pop(name)) if name in row else None for name in utilization] for row in table]
    known = 0.35 * 0.8 + 0.35 * 0.7 + 0.2 * 0.25 + 0.1 * 0.9
    ceiling = (0.35 + 0.35 + 0.1) * 0.105 + 0.2  # the driver's percents are whole
    for (point, lower, upper), row in zip(found, table, strict=True):
        assert point == (None if row["gpu"] == "1" else pytest.approx(known))
        assert (lower, upper) == pytest.approx((0.0, ceiling) if row["gpu"] == "1" else (known, known))
    second, third = {"time": "2026-01-01T00:00:01.000Z"}, {"time": "2026-01-01T00:00:02.000Z"}
    assert table[:3] == [
        first,
        unknown,
        {**first, **second, "power_watts": "402.75", "memory_used_bytes": "2147483648.0"},
    ]
    assert table[4:] == [{**first, **third, "power_watts": "404.125", "memory_used_bytes": "4294967296.0"}]
    assert [row["gpu"] for row in table] == ["0", "1", "0", "1", "0"]


def test_export_of_chosen_columns(capture: Path) -> None:
    finished = pulsed("export", "--columns", "gpu,sm_active_ratio,time", *replay(capture))
    assert finished.stdout.splitlines()[:3] == [
        "gpu,sm_active_ratio,time",
        "0,0.8,2026-01-01T00:00:00.000Z",
        "1,,2026-01-01T00:00:00.000Z",
    ]
    wrong = pulsed("export", "--columns", "gpu,sm_activ_ratio", *replay(capture))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "sm_active_ratio" in wrong.stderr
    assert wrong.stderr.count("\n") == 1


def piped(words: list[str], reader: str) -> subprocess.CompletedProcess[str]:
    """Run a command of pulsed with its output piped into another program; the shell reports the failure of either."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{shlex.join([*PULSED, *words])} | {reader}"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env=environment(),
    )


@pytest.mark.parametrize("lines", [1, 3])
def test_export_into_head(capture: Path, lines: int) -> None:
    """A reader may have read enough at any time."""
    finished = piped(["export", *replay(capture, "--set=source.replay.loop=true")], f"head -{lines}")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.count("\n") == lines


@pytest.mark.parametrize("format", nightly_after(1, ["table", "json", "csv", "prometheus"]))
def test_snapshot_into_nothing(capture: Path, format: str) -> None:
    """As `head`, but even sooner, and with a reader that is gone before the first byte."""
    finished = piped(["snapshot", "--format", format, *replay(capture)], "true")
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_export_ends_when_told(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*PULSED, "export", "--source=demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("time,node,gpu,")
    assert "demo" in process.stdout.readline()
    process.send_signal(number)
    rest, err = process.communicate(timeout=SECONDS)
    assert process.returncode == (0 if number == signal.SIGINT else -number)
    assert err == ""
    assert all(line.count(",") == 12 for line in rest.splitlines()), "no row is cut"


def test_export_without_a_source(tmp_path: Path) -> None:
    finished = pulsed("export", *replay(tmp_path / "nothing.txt"))
    assert finished.returncode == 1
    assert str(tmp_path / "nothing.txt") in finished.stderr.splitlines()[-1]
    assert "Traceback" not in finished.stderr


# --- snapshot


def test_snapshot_as_json(capture: Path) -> None:
    finished = pulsed("snapshot", "--format=json", *replay(capture))
    assert (finished.returncode, finished.stderr) == (0, "")
    document = json.loads(finished.stdout)
    assert has_shape(GPUS, document)
    assert [one["metrics"]["sm_active_ratio"] for one in document["gpus"]] == [0.8, None]


def test_snapshot_as_csv(capture: Path) -> None:
    finished = pulsed("snapshot", "--format=csv", *replay(capture))
    assert (finished.returncode, finished.stderr) == (0, "")
    header, *rows = csv.reader(io.StringIO(finished.stdout))
    assert header == [*HEADER, *QUANTITIES]
    assert [row[header.index("sm_active_ratio")] for row in rows] == ["0.8", ""]


def test_snapshot_as_a_page(capture: Path) -> None:
    finished = pulsed("snapshot", "--format=prometheus", *replay(capture))
    assert (finished.returncode, finished.stderr) == (0, "")
    families = {family.name: family for family in text_string_to_metric_families(finished.stdout)}
    samples = families["pulsed_gpu_sm_active_ratio"].samples
    assert [(sample.labels["gpu"], sample.value) for sample in samples] == [("0", 0.8)]


def test_snapshot_of_the_demo_says_so() -> None:
    assert "DEMO" in pulsed("snapshot", "--source=demo").stdout


def test_snapshot_of_a_page_that_is_not_of_gpus(tmp_path: Path) -> None:
    """Prometheus' own page; and a dcgm-exporter's without a GPU, which is not waited for."""
    source = "--source=exporter", "--set=source.interval=15s"
    with prometheus(tmp_path, "{}") as server:
        server.wait_for("vector(1)")
        finished = pulsed("snapshot", *source, f"--set=source.exporter.targets=http://127.0.0.1:{server.port}/metrics")
    assert (finished.returncode, finished.stdout) == (1, "")
    assert "samples comes from dcgm-exporter (DCGM_*); the first is go_" in finished.stderr

    page = tmp_path / "switches.prom"
    page.write_text('DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="0"} 40\n')
    finished = pulsed("snapshot", *source, f"--set=source.exporter.targets={page}")
    assert (finished.returncode, finished.stdout) == (1, "")
    assert f"{page}: lists no GPU" in finished.stderr


# --- serve and check-config


def test_serve_without_its_recording_says_why_and_waits_for_it(capture: Path) -> None:
    """A daemon starts before its source does, and does not end with it."""
    text, missing = capture.read_text(), capture.with_name("missing.txt")
    with serving(missing.parent, *replay(missing), ready=False) as daemon:
        ready = daemon.get("/-/ready")
        assert ready.status == 503
        assert str(missing) in ready.text
        source = daemon.get("/gpus").json()["source"]
        assert source["up"] is False
        assert source["error"].startswith(f"cannot read {missing}: ")
        missing.write_text("Error: unable to establish a connection to the specified host: localhost\n")
        until(lambda: "unable to establish" in daemon.get("/gpus").json()["source"]["error"])
        missing.write_text(text)
        daemon.wait_for("/-/ready")
        assert daemon.get("/gpus/0").json()["metrics"]["power_watts"] == 404.125
        assert "Traceback" not in daemon.log()


def test_check_config() -> None:
    good = pulsed("check-config", str(ROOT / "config.example.yaml"))
    assert (good.returncode, good.stderr) == (0, "")
    bad = pulsed("check-config", str(ROOT / "tests/config/fixtures/several-mistakes.bad.yml"))
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("pulsed: ")
    assert "Traceback" not in bad.stderr
