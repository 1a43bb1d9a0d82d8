"""The checks of the node through the whole program, on a made /sys, /proc and /dev."""

from __future__ import annotations

import itertools
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, pulsed, serving
from tests.support.host_tree import HostTree
from tests.support.nightly import nightly_after
from tests.support.standin.install import Standin
from tests.support.standin.scenario import Gpu, Scenario
from tests.support.standin.signals import Constant
from tests.support.waiting import until

BUSES = ("1b", "3b", "5e")


@pytest.fixture
def tree(tmp_path: Path) -> HostTree:
    tree = HostTree(tmp_path / "host")
    for bus in BUSES:
        tree.add_gpu(f"0000:{bus}:00.0")
    return tree


@pytest.fixture
def standin(tmp_path: Path) -> Standin:
    folder = tmp_path / "bin"
    folder.mkdir()
    return Standin(folder, Scenario(gpus=gpus(2)))


def gpus(count: int) -> tuple[Gpu, ...]:
    return tuple(Gpu(bus_id=f"00000000:{bus.upper()}:00.0") for bus in BUSES[:count])


def flags(standin: Standin, tree: HostTree, **keys: object) -> list[str]:
    given = {
        "node": "n1",
        "source.interval": "200ms",
        "source.dcgmi.path": standin.path,
        "source.dcgmi.read_timeout": "2s",
        "host.root": tree.root,
        "host.interval": "200ms",
        "health.kernel_log": tree.kernel_log,
    }
    pairs = [("--set", f"{key}={value}") for key, value in (given | keys).items()]
    return ["--source", "dcgmi", "--log.format", "json", *(word for pair in pairs for word in pair)]


def problem(daemon: Daemon, check: str) -> dict[str, Any]:
    """Return a raised check of the node; empty if it is not raised."""
    rows = [row for row in daemon.get("/health/gpus").json() if row["gpu"] is None and not row["target"]]
    return next((each for row in rows for each in row["problems"] if each["id"] == check), {})


def severity(daemon: Daemon, check: str) -> int | None:
    series = f'pulsed_node_health_check{{node="n1",check="{check}"}}'
    found = re.search(rf"^{re.escape(series)} (\S+)$", daemon.get("/metrics").text, re.MULTILINE)
    return int(float(found[1])) if found else None


def state(daemon: Daemon, check: str) -> str | None:
    found: str | None = problem(daemon, check).get("state")
    return found


def test_a_gpu_that_was_never_there_is_named_with_the_reason_of_the_kernel(
    tmp_path: Path, standin: Standin, tree: HostTree
) -> None:
    with serving(tmp_path, *flags(standin, tree, **{"health.expected_gpus": 3})) as daemon:
        until(lambda: state(daemon, "gpu_missing") == "warn")
        tree.log("NVRM: GPU 0000:5e:00.0: RmInitAdapter failed! (0x62:0x40:2393)", time.time())
        until(lambda: state(daemon, "gpu_missing") == "crit")
        told = problem(daemon, "gpu_missing")
        assert "00000000:5E:00.0 (NVRM: GPU 0000:5e:00.0: RmInitAdapter failed! (0x62:0x40:2393))" in told["message"]
        until(lambda: problem(daemon, "gpu_count").get("message", "").endswith(": 2 of 3"))
        assert (severity(daemon, "gpu_missing"), severity(daemon, "gpu_count")) == (4, 4)
        assert 'pulsed_node_pci_gpus{node="n1"} 3' in daemon.get("/metrics").text
        assert {each["id"] for each in daemon.get("/host").json()["problems"]} == {"gpu_missing", "gpu_count"}
        told_by = pulsed("health", f"http://{daemon.address}")
        assert told_by.returncode == 2
        assert "n1  CRIT  gpu_missing" in told_by.stdout
        line = daemon.get("/health/gpus?format=line&checks=gpu_missing").text
        assert line.startswith("PULSED CRITICAL - n1 crit: gpu_missing;")
        assert '"check": "gpu_missing"' in daemon.log()
        tree.add_pci("0000:5e:00.0", "vfio-pci")
        until(lambda: severity(daemon, "gpu_missing") == 0)
        assert [row["state"] for row in daemon.get("/health/gpus?checks=gpu_missing").json()] == ["ok"]


@pytest.mark.parametrize("code", nightly_after(1, [62, 79, 119, 120]))
def test_a_gpu_that_failed_before_the_start_is_named_with_its_xid(
    tmp_path: Path, standin: Standin, tree: HostTree, code: int
) -> None:
    now = time.time()
    tree.log("NVRM: Xid (PCI:0000:5e:00): 31, pid=7, name=python", now)
    tree.log(f"NVRM: Xid (PCI:0000:5e:00): {code}, pid=7, the GPU failed", now)
    tree.log("NVRM: Xid (PCI:0000:5e:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)", now)
    with serving(tmp_path, *flags(standin, tree)) as daemon:
        until(lambda: state(daemon, "gpu_missing") == "crit")
        assert f"00000000:5E:00.0 (XID {code}, pid=7, the GPU failed)" in problem(daemon, "gpu_missing")["message"]


def test_a_dead_gpu_stays_until_it_is_forgotten(tmp_path: Path, standin: Standin, tree: HostTree) -> None:
    """Also over a restart, and with `auto` the number of GPUs that there were."""
    keys = {"health.expected_gpus": "auto", "state_dir": tmp_path / "state", "enable_lifecycle": "true"}
    with serving(tmp_path, *flags(standin, tree, **keys)) as daemon:
        until(lambda: severity(daemon, "gpu_count") == 0)
        assert daemon.stop() == 0
    standin.change(gpus=gpus(1))
    tree.log(f"NVRM: Xid (PCI:0000:{BUSES[1]}:00): 79, GPU has fallen off the bus.", time.time())
    with serving(tmp_path, *flags(standin, tree, **keys)) as daemon:
        until(lambda: problem(daemon, "gpu_count").get("message", "").endswith(": 1 of 2"))
        assert [gpu["health"]["state"] for gpu in daemon.get("/gpus").json()["gpus"]][1:] == ["crit"]
        assert daemon.get("/-/forget?gpu=1", method="POST").status == 200
        until(lambda: severity(daemon, "gpu_count") == 0)


def test_a_driver_that_hangs_is_named_with_its_processes(tmp_path: Path, standin: Standin, tree: HostTree) -> None:
    tree.add_process(4711, "python3", has_gpu=True)
    with serving(tmp_path, *flags(standin, tree)) as daemon:
        until(lambda: state(daemon, "driver_hung") == "warn")
        tree.add_process(4712, "nvidia-smi")
        until(lambda: state(daemon, "driver_hung") == "crit")
        assert problem(daemon, "driver_hung")["message"] == (
            "Processes hang in the NVIDIA driver: nvidia-smi (process 4712), python3 (process 4711)"
        )
        assert pulsed("health", f"http://{daemon.address}").returncode == 2
        tree.add_process(4711, "python3", "S")
        tree.add_process(4712, "nvidia-smi", "S")
        until(lambda: severity(daemon, "driver_hung") == 0)


def test_errors_of_nvswitches_are_named(tmp_path: Path, standin: Standin, tree: HostTree) -> None:
    tree.log("nvidia-nvswitch0: open (major=235)", time.time())
    with serving(tmp_path, *flags(standin, tree)) as daemon:
        until(lambda: severity(daemon, "nvswitch_error") == 0)
        switch = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0)"
        tree.log(f"{switch}: 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)", time.time())
        until(lambda: severity(daemon, "nvswitch_error") == 2)
        tree.log(f"{switch}: 12028, Fatal, Link 46 egress non-posted PRIV error (First)", time.time())
        tree.log(f"{switch}: 12028, Severity 1 Engine instance 46 Sub-engine instance 00", time.time())
        until(lambda: severity(daemon, "nvswitch_error") == 4)
        assert problem(daemon, "nvswitch_error")["message"] == (
            "Errors of an NVSwitch: "
            "00000000:C1:00.0 (SXID 12028, Fatal, Link 46 egress non-posted PRIV error (First)), "
            "00000000:C1:00.0 (SXID 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First))"
        )
        assert pulsed("health", f"http://{daemon.address}").returncode == 2


def test_a_host_engine_that_answers_nothing_is_named(tmp_path: Path) -> None:
    hanging = tmp_path / "dcgmi"
    hanging.write_text("#!/bin/sh\nexec sleep 600\n")
    hanging.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as engine:
        address = f"127.0.0.1:{engine.getsockname()[1]}"
        keys = {"dcgmi.path": hanging, "dcgmi.host": address, "dcgmi.read_timeout": "1s"}
        arguments = [word for key, value in keys.items() for word in ("--set", f"source.{key}={value}")]
        with serving(tmp_path, "--source", "dcgmi", *arguments, ready=False) as daemon:
            series = f'pulsed_source_errors_total{{source="{address}",reason="engine_hung"}} 1'
            until(lambda: series in daemon.get("/metrics").text)
            (row,) = daemon.get("/health/gpus").json()
            assert row["state"] == "unknown"
            assert "accepts connections but does not answer" in row["problems"][0]["message"]


def test_infiniband_links_that_go_down_slow_down_and_have_errors_are_named(
    tmp_path: Path, standin: Standin, tree: HostTree
) -> None:
    for number in range(3):
        tree.set_port(f"mlx5_{number}", link_downed=0, symbol_error=7, port_rcv_data=250)
    with serving(tmp_path, *flags(standin, tree)) as daemon:
        until(lambda: severity(daemon, "ib_link_down") == 0)
        labels = 'node="n1",device="mlx5_0",port="1"'
        page = daemon.get("/metrics").text
        assert f"pulsed_node_infiniband_port_up{{{labels}}} 1" in page
        assert f"pulsed_node_infiniband_port_rate_bytes_per_second{{{labels}}} 50000000000" in page
        assert f"pulsed_node_infiniband_port_receive_bytes_total{{{labels}}} 1000" in page
        tree.set_port("mlx5_0", "1: DOWN", "2: Polling", "10 Gb/sec (4X SDR)", link_downed=1)
        tree.set_port("mlx5_1", rate="100 Gb/sec (1X NDR)")
        until(lambda: state(daemon, "ib_link_down") == "crit" and state(daemon, "ib_link_degraded") == "warn")
        assert problem(daemon, "ib_link_down")["message"].endswith(": mlx5_0/1")
        assert problem(daemon, "ib_link_degraded")["message"].endswith(": mlx5_1/1 (100 of 400 Gbit/s)")
        assert problem(daemon, "ib_errors")["message"].endswith(": mlx5_0/1 (1 times that the link went down)")


def test_the_balance_of_a_job_has_what_the_network_did_while_sms_waited(
    tmp_path: Path, standin: Standin, tree: HostTree
) -> None:
    """SMs work without traffic, then wait while two ports receive; beside it what the job used of the host's CPUs."""
    jobs, received = tmp_path / "jobs", itertools.count(step=10_000_000)
    jobs.mkdir()
    (jobs / "0").write_text("job_id=4711\n")
    tree.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711/cpu.stat", "usage_usec 90000000\n")
    name = "network_receive_bytes_per_second"
    keys = {"host.job_interval": "200ms", "attribution.jobs.directories": jobs, "attribution.jobs.interval": "50ms"}

    def set_ports() -> None:
        count = next(received)
        for device in ("mlx5_0", "mlx5_1"):
            tree.set_port(device, port_rcv_data=count, port_xmit_data=0)

    def host() -> Any:
        """Return what the job used of its host; nothing before anything is known."""
        answer = daemon.get("/jobs/4711")
        return next(iter(answer.json()["hosts"] if answer.status == 200 else ()), {"balance": {}})

    def balance(member: str) -> float:
        return float(host()["balance"].get(name, {}).get(member, 0.0))

    def is_received() -> bool:
        set_ports()
        return balance("waiting_integral") > 1e9

    set_ports()
    standin.change(load=Constant(1.0))
    with serving(tmp_path, *flags(standin, tree, **keys)) as daemon:
        until(lambda: balance("working_seconds") > 1.0)
        assert balance("integral") == 0.0
        standin.change(load=Constant(0.0))
        until(lambda: daemon.get("/gpus/0").json()["metrics"]["sm_active_ratio"] == 0.0)
        before = balance("waiting_seconds")
        until(lambda: balance("waiting_seconds") > before + 0.5)  # no interval has both
        until(is_received)
        found = host()
        assert found["cpu_seconds"] == 90.0
        sums = found["balance"][name]
        assert sums["waiting_integral"] > 2.0 * sums["working_integral"]
        rate = found["balance"]["network_rate_bytes_per_second"]
        assert rate["integral"] == pytest.approx(rate["seconds"] * 2 * 5e10)
        assert found["network_shared_seconds"] == 0.0
        assert found["balance"]["dram_active_ratio"]["seconds"] > 1.0
        report = pulsed("job", "4711", f"http://{daemon.address}").stdout
        assert re.search(r"network received by a node .*% of the rate of its ports", report)


def test_gpus_of_others_are_no_fault(tmp_path: Path, standin: Standin, tree: HostTree) -> None:
    """One of a virtual machine, and those of a host whose GPUs this process does not read."""
    tree.add_pci("0000:5e:00.0", "vfio-pci")
    with serving(tmp_path, *flags(standin, tree)) as daemon:
        until(lambda: severity(daemon, "gpu_missing") == 0)
        assert problem(daemon, "gpu_missing") == {}
    keys = ("--source", "demo", "--set", f"host.root={tree.root}", "--set", "host.interval=100ms")
    with serving(tmp_path, *keys) as daemon:
        until(lambda: daemon.get("/metrics").text.count("pulsed_gpu_info") > 1)
        assert "pulsed_node_pci_gpus" not in daemon.get("/metrics").text
        assert "pulsed_node_health_check" not in daemon.get("/metrics").text
