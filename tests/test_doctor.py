"""What `pulsed doctor` finds and advises."""

from __future__ import annotations

import functools
import http.server
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsed.compute.compute import Settings, compute
from pulsed.compute.tick import Result
from pulsed.config import Config
from pulsed.config.load import load
from pulsed.doctor import INPUTS, doctor
from pulsed.preflight import driver_version
from pulsed.reader.tick import Layout, RawTick
from pulsed.translate.tick import CanonicalTick, Device, Entity
from pulsed.translate.vocabulary import QUANTITIES, Reading
from tests.bench.pages import exporter_page
from tests.daemon import free_port
from tests.standin.install import install
from tests.standin.scenario import Refusal, Scenario, gpus

NOBODY = f"http://127.0.0.1:{free_port()}/metrics"


def configured(dcgmi: Path | str = "/nowhere/dcgmi", exporter: str = NOBODY, kind: str = "auto") -> Config:
    given = {"kind": kind, "dcgmi": {"path": str(dcgmi)}, "exporter": {"targets": exporter}}
    return load(None, [f"source={json.dumps(given)}"], {})


def report(config: Config) -> tuple[int, dict[str, Any]]:
    out = io.StringIO()
    code = doctor(config, "json", out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return code, found


def told(config: Config) -> str:
    out = io.StringIO()
    doctor(config, "table", out)
    return out.getvalue()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    """An exporter whose page lacks what dcgm-exporter's default counters file leaves out."""
    folder = tmp_path / "exporter"
    folder.mkdir()
    lacking = (b"PROF_SM_ACTIVE", b"PIPE_FP64")
    lines = [line for line in exporter_page(2).splitlines(True) if not any(name in line for name in lacking)]
    (folder / "metrics").write_bytes(b"".join(lines))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_machine_with_nothing_is_told_what_to_do() -> None:
    code, found = report(configured())
    assert code == 1
    assert found["would_take"] is None
    assert [source["works"] for source in found["sources"]] == [False, False]
    assert all(source["error"] for source in found["sources"])
    assert "--source demo" in found["advice"]
    assert "Nothing can be served" in told(configured())


def test_an_exporter_that_lacks_counters_is_told_which_lines_to_add(page: str) -> None:
    code, found = report(configured(exporter=page))
    assert code == 0
    assert found["would_take"] == {"kind": "exporter", "target": page}
    exporter = found["sources"][1]
    assert exporter["gpus"] == 2
    utilization, workload, *_ = exporter["derived"]
    assert utilization["missing"] == {"sm_active_ratio": ["0", "1"]}
    assert set(workload["missing"]) == {"sm_active_ratio", "fp64_active_ratio"}
    text = told(configured(exporter=page))
    assert text.count("DCGM_FI_PROF_SM_ACTIVE, gauge, ") == 1
    assert "customMetrics" in text


def test_a_host_engine_that_has_everything(tmp_path: Path) -> None:
    code, found = report(configured(install(tmp_path, Scenario(gpus=gpus("hopper", 2)))))
    assert code == 0
    assert found["would_take"]["kind"] == "dcgmi"
    engine = found["sources"][0]
    assert engine["gpus"] == 2
    assert [derived["missing"] for derived in engine["derived"]] == [{}] * len(INPUTS)


def test_an_engine_that_is_away_says_how_to_start_it(tmp_path: Path) -> None:
    code, found = report(configured(install(tmp_path, Scenario(engine=False)), kind="dcgmi"))
    assert code == 1
    (engine,) = found["sources"]
    assert "systemctl start nvidia-dcgm" in engine["error"]


def test_an_exporter_that_holds_the_profiling_counters_is_preferred(tmp_path: Path, page: str) -> None:
    scenario = Scenario(gpus=gpus("ampere", 1), refusals=(Refusal("profiling_held", tuple(range(1001, 1020))),))
    code, found = report(configured(install(tmp_path, scenario), page))
    assert code == 0
    assert "profiling_held" in found["sources"][0]["lost_fields"]
    assert found["would_take"]["kind"] == "exporter"
    alone = report(configured(install(tmp_path, scenario)))[1]
    assert alone["would_take"]["kind"] == "dcgmi"
    assert any("profiling held" in line for line in alone["sources"][0]["derived"][0]["supply"])


def test_a_gpu_without_profiling_still_gives_the_plain_fields(tmp_path: Path) -> None:
    engine = report(configured(install(tmp_path, Scenario(gpus=gpus("geforce", 1))), kind="dcgmi"))[1]["sources"][0]
    utilization, _, energy, _ = engine["derived"]
    assert utilization["missing"]
    assert energy["missing"] == {}
    assert engine["lost_fields"]


def test_the_driver_is_read_from_proc(tmp_path: Path) -> None:
    assert driver_version(tmp_path) == ""
    file = tmp_path / "proc/driver/nvidia/version"
    file.parent.mkdir(parents=True)
    file.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n")
    assert driver_version(tmp_path) == "535.129.03"
    file.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build\n")
    assert driver_version(tmp_path) == "570.124.06"


def result(reading: Reading) -> Result:
    raw = RawTick("t", 0.0, 0.0, 1.0, Layout("exporter", ()), ())
    tick = CanonicalTick("t", 0.0, 0.0, 1.0, (Device(Entity("gpu", "0")),), (reading,), raw)
    return compute(tick, Settings()).results[0]


def test_the_inputs_are_those_that_compute_reads() -> None:
    whole = Reading(**dict.fromkeys(QUANTITIES, 0.0))._replace(graphics_engine_active_ratio=0.3)
    weighted = INPUTS["real utilization"]
    assert set(result(whole._replace(**dict.fromkeys(QUANTITIES))).real_utilization.missing) == set(weighted)
    inputs = set(INPUTS["workload class"])
    blind = whole._replace(**{name: None for name in QUANTITIES if name not in inputs})
    assert result(blind) == result(whole), "nothing else is read while these are there"
    busy = blind._replace(graphics_engine_active_ratio=0.95, sm_active_ratio=0.6, fp64_active_ratio=0.1)
    for name in inputs:
        without = [result(reading._replace(**{name: None})) for reading in (blind, busy)]
        assert without != [result(blind), result(busy)], name
