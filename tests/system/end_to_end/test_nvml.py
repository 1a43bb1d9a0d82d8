"""The daemon and the commands with the source `nvml`: nvidia-ml-py loads a stand-in of the driver's library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pulsed.owners.attribution.gpu_processes import are_visible
from tests.support.daemon import pulsed, serving
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import NvmlStandin, compiled
from tests.support.standin.install import install
from tests.support.standin.scenario import Gpu, Scenario
from tests.support.standin.signals import Constant
from tests.support.waiting import until


@pytest.fixture
def driver(nvml_library: Path, tmp_path: Path) -> NvmlStandin:
    gpus = [boards.hopper(0), boards.split(boards.hopper(1), [(1, "1g.10gb")]), boards.turing(2)]
    return NvmlStandin(nvml_library, tmp_path / "nvml.scenario", gpus)


def test_the_daemon_serves_the_gpus_of_a_driver(driver: NvmlStandin, tmp_path: Path) -> None:
    arguments = ("--source", "nvml", "--set", "source.interval=100ms", "--set", "publish.passthrough=true")
    with serving(tmp_path, *arguments, ready=True, **driver.environment()) as daemon:
        until(lambda: "pulsed_gpu_sm_active_ratio" in daemon.get("/metrics").text)
        page = daemon.get("/metrics").text
        assert re.search(r'^pulsed_source_info{.*"nvml".*"libnvidia-ml.so.1".*} 1$', page, re.MULTILINE)
        assert "\nDCGM_FI_PROF_SM_ACTIVE{" in page
        gpus = daemon.get("/gpus").json()["gpus"]
        assert [gpu["uuid"] for gpu in gpus if not gpu["mig"]] == [boards.uuid_of(n) for n in range(3)]
        driver.gpus[2]["temperature.0"] = 63
        driver.write()
        until(lambda: daemon.get("/gpus").json()["gpus"][-1]["metrics"]["temperature_celsius"] == 63.0)
        driver.write(all_error=9)
        until(lambda: 'reason="driver_unavailable"' in daemon.get("/metrics").text)
        assert daemon.get("/-/healthy").status == 200
        driver.write(all_error=0)
        driver.reload_driver()
        until(lambda: daemon.get("/-/ready").status == 200)
        assert daemon.stop() == 0


@pytest.mark.skipif(not are_visible(), reason="the processes of the host are hidden here")
def test_processes_of_gpus_are_published_and_own_them(driver: NvmlStandin, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import time; time.sleep(600)", "--token=x1y2"]
    with subprocess.Popen(program, start_new_session=True) as process:
        try:
            driver.gpus[0] |= {"processes": f"{process.pid}:{2**30}:", "processes.busy": f"{process.pid}:37"}
            driver.gpus[1] |= {"processes": f"{process.pid}:{2**20}:1"}
            driver.gpus[2] |= {"processes": "4194304:7:"}  # no process has this number
            driver.write()
            options = ("attribution.processes.enabled=true", "attribution.process_owners=true", "source.interval=200ms")
            arguments = [part for option in options for part in ("--set", option)]
            with serving(tmp_path, "--source", "nvml", *arguments, ready=True, **driver.environment()) as daemon:
                rows = {row["pid"]: row for row in daemon.get("/processes").json()["processes"] if row["gpus"]}
                assert rows.keys() == {process.pid, 4194304}
                row = rows[process.pid]
                assert row["command"] == sys.executable
                assert row["user"]
                assert [(use["gpu"], use["mig_id"], use["memory_bytes"]) for use in row["gpus"]] == [
                    ("0", None, 2**30),
                    ("1", "1", 2**20),
                ]
                assert row["gpus"][0]["sm_utilization_ratio"] == 0.37
                assert rows[4194304]["user"] is None

                def owners() -> list[list[str]]:
                    gpus = daemon.get("/gpus").json()["gpus"]
                    return [[owner["id"] for owner in gpu["attribution"]["owners"]] for gpu in gpus]

                id_ = str(process.pid)
                until(lambda: owners() == [[id_], [id_], [id_], []])
                assert daemon.get("/gpus").json()["gpus"][0]["attribution"]["processes"] == [process.pid]
                until(lambda: 'kind="process"' in daemon.get("/metrics").text)
                until(lambda: id_ in {job["owner"]["id"] for job in daemon.get("/jobs").json()["jobs"]})
        finally:
            process.kill()


def test_a_hung_driver_blocks_neither_http_nor_the_end(driver: NvmlStandin, tmp_path: Path) -> None:
    arguments = ("--source", "nvml", "--set", "source.interval=100ms", "--set", "source.nvml.timeout=300ms")
    with serving(tmp_path, *arguments, ready=True, **driver.environment()) as daemon:
        driver.write(nvmlDeviceGetTemperatureV_delay_us=3_600_000_000)
        until(lambda: 'reason="driver_hung"} 0' not in daemon.get("/metrics").text)
        assert daemon.get("/-/healthy").status == 200
        assert daemon.stop() == 0


def test_snapshot_has_the_profiling_counters(driver: NvmlStandin) -> None:
    done = pulsed("snapshot", "--source", "nvml", "--format", "json", **driver.environment())
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["gpus"][0]
    assert first["metrics"]["sm_active_ratio"] == 0.883


def test_an_old_driver_has_the_older_functions(tmp_path: Path) -> None:
    library = compiled(tmp_path / "old", old_driver=True)
    driver = NvmlStandin(library, tmp_path / "nvml.scenario", [boards.ampere()])
    done = pulsed("snapshot", "--source", "nvml", "--format", "json", **driver.environment())
    assert done.returncode == 0, done.stderr
    gpu = json.loads(done.stdout)["gpus"][0]["metrics"]
    assert gpu["temperature_celsius"] == 44.0
    assert gpu["memory_used_bytes"] == 4 * boards.GIB + 645 * boards.MIB
    assert gpu["clocks_event_reasons"] == 0.0


def test_auto_takes_nvml_where_there_is_no_dcgm(driver: NvmlStandin) -> None:
    arguments = ("--source", "auto", "--set", "source.exporter.targets=http://127.0.0.1:1/metrics")
    done = pulsed("snapshot", *arguments, "--format", "json", **driver.environment())
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["gpus"]) == 4


def test_doctor_names_what_dcgm_would_add(driver: NvmlStandin) -> None:
    done = pulsed("doctor", "--source", "nvml", **driver.environment())
    assert "libnvidia-ml.so.1: works" in done.stdout
    assert "not in NVML for this GPU: 1002 PROF_SM_ACTIVE" in done.stdout.replace("\n        ", " ")


def test_doctor_names_what_holds_the_profiling_counters(driver: NvmlStandin, tmp_path: Path) -> None:
    driver.write(nvmlGpmSampleGet_error=19)
    engine = tmp_path / "nv-hostengine"
    engine.symlink_to(shutil.which("sleep") or "")
    with subprocess.Popen([engine, "600"]) as dcgm:
        try:
            done = pulsed("doctor", "--source", "nvml", **driver.environment())
        finally:
            dcgm.kill()
    assert "no profiling counters, profiling held: the profiling counters of the driver are in use" in done.stdout
    assert "DCGM runs here, too (nv-hostengine)" in done.stdout


def test_without_the_library_one_line_names_the_remedy(tmp_path: Path) -> None:
    done = pulsed("snapshot", "--source", "nvml", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode != 0
    assert "libnvidia-ml.so.1 is not found" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_sources_do_not_import_nvidia_ml_py() -> None:
    code = "import sys, pulsed.daemon.serve, pulsed.collector.source_factory; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_same_gpu_has_the_same_results_as_through_dcgmi(nvml_library: Path, tmp_path: Path) -> None:
    """The scenario of dcgmi's stand-in at full load, in NVML's units."""
    busy = Scenario(gpus=(Gpu(load=Constant(1.0)),))
    board = boards.hopper() | {
        "temperature.0": 64,
        "fi.82": 78,
        "fi.186": 652_500,
        "gpm.6": 0.1,
        "gpm.7": 61.0,
        "gpm.9": 0.1,
        "utilization.gpu": 99,
        "utilization.memory": 58,
        "decoder": 12,
        "threshold.0": 92,
        "threshold.1": 89,
        "margin": 87,
    }
    driver = NvmlStandin(nvml_library, tmp_path / "nvml.scenario", [board])
    found = [
        json.loads(pulsed("snapshot", "--format", "json", "--source", *arguments, **environment).stdout)["gpus"][0]
        for arguments, environment in (
            (("dcgmi", "--set", f"source.dcgmi.path={install(tmp_path, busy)}"), {}),
            (("nvml",), driver.environment()),
        )
    ]
    dcgmi, nvml = found
    assert nvml["real_utilization"] == dcgmi["real_utilization"]
    assert [nvml["workload"][key] for key in ("class", "bottleneck")] == ["tensor_heavy_compute", "compute"]
    assert nvml["workload"]["raw_class"] == dcgmi["workload"]["raw_class"]
    assert nvml["saturation"]["ratio"] == dcgmi["saturation"]["ratio"]
    of_nvml, of_dcgmi = nvml["saturation"]["resources"], dcgmi["saturation"]["resources"]
    assert (of_nvml.pop("c2c"), of_dcgmi.pop("c2c")) == (None, None), "an H100 has no such link"
    assert of_nvml == pytest.approx(of_dcgmi, rel=1e-3)
    # Not: what depends on the uptime of a stand-in, other amounts of memory in use, and what an H100 does not have.
    other = ("energy", "memory_used", "memory_free", "nvlink", "retired")
    common = {name for name in nvml["metrics"] if dcgmi["metrics"].get(name) is not None and not name.startswith(other)}
    assert {"power_watts", "sm_clock_hertz", "pcie_receive_bytes_per_second", "row_remap_pending"} <= common
    for name in common:
        assert nvml["metrics"][name] == pytest.approx(dcgmi["metrics"][name], rel=1e-3), name
