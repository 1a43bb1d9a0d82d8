"""Pages that leave something out: the GPU, its health, its counters and its owners stay."""

from __future__ import annotations

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.tick import Tick
from pulsed.owners.accounting import OwnerAccounting
from pulsed.present.api.account_documents import account_document
from pulsed.present.api.documents import health_document
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.exposition.parser import PageParser
from tests.support.sequences.omissions import changed_by_omissions

INTERVAL, BEGIN = 15.0, Monotonic(1767225600.0)


class Daemon:
    """One exporter, read each 15 s, with what is shown of it."""

    def __init__(self) -> None:
        self.target = Target("exporter", "t", INTERVAL, 3 * INTERVAL)
        self.store = TargetStore("n", [self.target])
        self.pipeline, self.parser, self.polls = Pipeline(GpuTable(), "n"), PageParser(), 0
        self.accounting = OwnerAccounting()

    def poll(self, page: str) -> Tick:
        parsed, clock = self.parser.parse(page.encode()), INTERVAL * self.polls
        self.polls += 1
        raw = RawTick("t", Unix(BEGIN + clock), Monotonic(clock), INTERVAL, parsed.layout, parsed.values)
        tick = self.pipeline.process(raw, ())
        self.target.accept(tick, Monotonic(clock))
        self.accounting.add(tick)
        return tick

    @property
    def now(self) -> float:
        return INTERVAL * (self.polls - 1)

    def health(self) -> dict[str, str]:
        return {row["gpu"]: row["state"] for row in health_document(self.store, Monotonic(self.now))}

    def metrics(self) -> list[str]:
        page = Pages(self.store, Telemetry(self.store)).page(Monotonic(self.now), openmetrics=False, gzip=False)
        return page.decode().splitlines()


def board(gpu: int, poll: int, **values: float) -> str:
    shown = {"GPU_TEMP": 50 + poll % 2, "POWER_USAGE": 300 + poll, "TOTAL_ENERGY_CONSUMPTION": 1e9 + 4.5e6 * poll}
    labels = f'gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n",modelName="NVIDIA H100 80GB HBM3"'
    return "".join(f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n" for name, value in (shown | values).items())


def test_a_sick_gpu_that_one_page_leaves_out_stays_critical() -> None:
    """dcgm-exporter#164."""
    daemon = Daemon()
    for poll in range(5):
        gpus = [board(gpu, poll, ROW_REMAP_FAILURE=float(gpu == 2)) for gpu in range(4)]
        daemon.poll("".join(gpus))
    before = [line for line in daemon.metrics() if 'uuid="GPU-2"' in line]
    daemon.poll("".join(board(gpu, 5, ROW_REMAP_FAILURE=0.0) for gpu in (0, 1, 3)))
    assert daemon.health() == {"0": "ok", "1": "ok", "2": "crit", "3": "ok"}
    after = [line for line in daemon.metrics() if 'uuid="GPU-2"' in line]
    counters = [line for line in before if "_total{" in line and "quantity" not in line]
    assert any(line.startswith("pulsed_gpu_health_severity") and line.endswith(" 4") for line in after)
    names = {line.partition("{")[0] for line in after}
    missing = {line.partition("{")[0] for line in counters} - names
    assert all(name in missing for name in missing if name.startswith("pulsed_gpu_energy"))
    assert "pulsed_gpu_observed_seconds_total" in names
    for poll in (6, 7, 8):
        daemon.poll("".join(board(gpu, poll, ROW_REMAP_FAILURE=0.0) for gpu in (0, 1, 3)))
    assert daemon.health()["2"] == "crit", "what was found is still true"
    daemon.poll("".join(board(gpu, 9, ROW_REMAP_FAILURE=float(gpu == 2)) for gpu in range(4)))
    assert daemon.health()["2"] == "crit"


def instance(number: int, pod: str) -> str:
    labels = 'gpu="0",UUID="GPU-0",Hostname="n",modelName="NVIDIA H100 80GB HBM3"'
    labels += f',GPU_I_ID="{number}",GPU_I_PROFILE="1g.10gb"' + (f',pod="{pod}",namespace="ml"' if pod else "")
    level = 0.65 if pod else 0.0
    names = ("GR_ENGINE_ACTIVE", "SM_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")
    page = "".join(f"DCGM_FI_PROF_{name}{{{labels}}} {level}\n" for name in names)
    return page + f"DCGM_FI_DEV_FB_USED{{{labels}}} {5000 if pod else 0}\n"


def test_gaps_of_a_mig_instance_end_no_job_and_no_partitioning() -> None:
    """dcgm-exporter#441: of seven instances one is left out for four of every eight polls."""
    daemon = Daemon()
    pods = {7: "a0", 8: "a1", 9: "a2"}
    for poll in range(100):
        shown = [number for number in range(7, 14) if number != 9 or poll < 8 or poll % 8 < 4]
        tick = daemon.poll(board(0, poll) + "".join(instance(number, pods.get(number, "")) for number in shown))
        result = tick.gpus[0].result
        assert result.mig_unpartitioned == 0.0
        assert result.real_utilization.ratio.low <= 3 * 0.65 / 7 + 1e-6 <= result.real_utilization.ratio.high + 0.02
    accounts = [account_document(account, "n") for account in daemon.accounting.running]
    (mine,) = [each for each in accounts if each["owner"]["name"] == "a2"]
    assert (mine["state"], mine["elapsed_seconds"]) == ("running", 99 * INTERVAL)
    assert 0.4 < mine["coverage"] < 0.7


def test_series_of_a_gpu_keep_the_labels_of_its_pod_for_five_minutes() -> None:
    daemon, settings = Daemon(), PageSettings(owner_labels=True)
    pages = Pages(daemon.store, Telemetry(daemon.store), settings)
    labelled = board(1, 0).replace('gpu="1"', 'gpu="1",pod="a",namespace="ml"')
    for poll in range(3):
        daemon.poll(board(0, poll) + labelled)
    shown = []
    for poll in range(3, 30):
        daemon.poll(board(0, poll))
        page = pages.page(Monotonic(daemon.now), openmetrics=False, gzip=False).decode().splitlines()
        (line,) = [line for line in page if line.startswith("pulsed_gpu_health_severity{") and "GPU-1" in line]
        shown.append('pod="a"' in line)
    assert shown == [True] * 20 + [False] * 7


@pytest.mark.parametrize("seed", range(20))
def test_whatever_pages_leave_out_changes_no_owner_no_counter_and_no_health(seed: int) -> None:
    assert list(changed_by_omissions(seed)) == []
