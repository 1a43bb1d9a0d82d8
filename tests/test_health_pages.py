"""The cases in which other tools are wrong, as pages of a dcgm-exporter through the whole pipeline."""

from __future__ import annotations

import json

import pytest

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.health import CheckState, Health
from pulsed.model.raw_tick import RawTick
from pulsed.reader.exposition.parser import PageParser
from tests.support.ticks import results_of

A100, H100 = "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"
START = 1767225600.0
BLANK = 9223372036854775794
"""DCGM's value of an integer that it does not have."""


class Exporter:
    """A node whose page is read every so often; each GPU has the same values but for its own."""

    def __init__(self, model: str = H100, interval: float = 15.0, gpus: int = 1) -> None:
        self.model, self.interval, self.gpus = model, interval, gpus
        self.parser, self.pipeline = PageParser(), Pipeline(GpuTable(), "node")
        self.polls = 0
        self.measured: float | None = None
        self.lost_energy = self.away = 0.0
        self.watches: dict[str, int] = {}
        self.values: dict[str, float] = {"GPU_TEMP": 45, "POWER_USAGE": 200}
        self.health: list[Health] = []

    def poll(self, times: int = 1, **values: float) -> Health:
        """Read the page so often, with these values from now on; gives the health of the first GPU."""
        self.values |= values
        for _ in range(times):
            moment = self.polls * self.interval + self.away
            self.polls += 1
            moment = moment if self.measured is None else self.measured
            energy = {"TOTAL_ENERGY_CONSUMPTION": 1e9 + 200e3 * moment - self.lost_energy}
            page = "".join(
                f'DCGM_FI_DEV_{name}{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="{self.model}"}} {value}\n'
                for name, value in {**self.values, **energy}.items()
                for gpu in range(self.gpus)
            ) + "".join(
                f'DCGM_EXP_GPU_HEALTH_STATUS{{gpu="0",UUID="GPU-0",health_watch="{watch}"}} {result}\n'
                for watch, result in self.watches.items()
            )
            moment = self.polls * self.interval - self.interval + self.away
            read = self.parser.parse(page.encode())
            raw = RawTick(
                "test", Unix(START + moment), Monotonic(moment), self.interval, read.layout, read.values, read.rejected
            )
            self.health = [result.health for result in results_of(self.pipeline.process(raw))]
        return self.health[0]

    def repeat(self, times: int, **values: float) -> Health:
        """Read a page with these values so often; it was measured only once."""
        before, self.measured = dict(self.values), self.polls * self.interval + self.away
        health = self.poll(times, **values)
        self.values, self.measured = before, None
        return health

    def pause(self, seconds: float) -> None:
        """Read no page for so long."""
        self.away += seconds

    def restart_energy(self) -> None:
        """Reset the GPU: its energy counter begins again."""
        self.lost_energy = 1e9 + 200e3 * (self.polls * self.interval + self.away)

    def check(self, id: str, gpu: int = 0) -> CheckState:
        return self.health[gpu].check(id)


def test_a_repaired_a100_is_ok() -> None:
    node = Exporter(A100)
    health = node.poll(4, UNCORRECTABLE_REMAPPED_ROWS=3, ROW_REMAP_FAILURE=0, ROW_REMAP_PENDING=0)
    assert health.state == "ok"
    assert node.check("row_remap_failed").state == node.check("row_remap_growth").state == "ok"


def test_one_replay_is_ok_and_forty_a_minute_are_not() -> None:
    node = Exporter()
    node.poll(
        8, PCIE_MAX_LINK_GEN=5, PCIE_MAX_LINK_WIDTH=16, PCIE_LINK_GEN=5, PCIE_LINK_WIDTH=16, PCIE_REPLAY_COUNTER=7
    )
    node.poll(8, PCIE_REPLAY_COUNTER=8)
    assert node.check("pcie_replay").state == "ok"
    for replays in range(18, 178, 10):
        node.poll(PCIE_REPLAY_COUNTER=replays)
    assert node.check("pcie_replay").state == "warn"


def test_a_follower_does_not_hide_a_worse_code() -> None:
    node = Exporter()
    node.poll(3, XID_ERRORS=0)
    node.poll(XID_ERRORS=62)
    assert node.poll(4, XID_ERRORS=45).state == "crit"
    assert "XID 62" in node.check("xid_critical").message


def test_a_code_from_before_is_at_most_a_warning() -> None:
    assert Exporter().poll(4, XID_ERRORS=31).severity <= 2
    assert Exporter().poll(4, XID_ERRORS=79).severity <= 2


def test_an_a100_at_90_degrees_is_critical() -> None:
    node = Exporter(A100)
    node.poll(2, SLOWDOWN_TEMP=89, GPU_MAX_OP_TEMP=85, GPU_TEMP=60)
    assert node.poll(4, GPU_TEMP=90).state == "crit"
    assert dict(node.check("temp_gpu").evidence)["temperature_celsius"] == 90


def test_an_idle_link_is_ok_and_half_a_link_at_work_is_not() -> None:
    link = {"PCIE_MAX_LINK_GEN": 4, "PCIE_MAX_LINK_WIDTH": 16, "PSTATE": 8}
    node = Exporter(A100)
    node.poll(8, GPU_UTIL=0, PCIE_LINK_GEN=1, PCIE_LINK_WIDTH=16, **link)
    assert node.check("pcie_link").state == "ok"
    node.poll(8, GPU_UTIL=95, PCIE_LINK_GEN=4, PCIE_LINK_WIDTH=8, PSTATE=0)
    assert node.check("pcie_link").state == "warn"


def test_a_power_cap_alone_is_no_matter_of_health() -> None:
    node = Exporter(H100, 1.0)
    assert node.poll(400, CLOCK_THROTTLE_REASONS=0x4, GPU_UTIL=99, POWER_VIOLATION=1).state == "ok"
    for check in ("thermal_hw", "thermal_sw", "power_brake", "hw_slowdown"):
        assert node.check(check).state == "ok"


def test_what_has_no_inputs_is_unknown() -> None:
    node = Exporter()
    health = node.poll(10)
    unknown = {each.id for each in health.checks if each.state == "unknown"}
    assert {"xid_critical", "ecc_uncorrectable", "row_remap_failed", "pcie_link", "nvlink_errors"} <= unknown
    assert all(each.covered for each in health.checks if each.state == "ok")
    assert health.coverage < 0.5


def test_a_gpu_that_vanishes_keeps_its_health_for_one_poll_and_is_unknown_after_it() -> None:
    node = Exporter(gpus=2)
    node.poll(3)
    node.gpus = 1
    node.poll(1)
    assert [health.state for health in node.health] == ["ok", "ok"]
    node.poll(2)
    assert node.health[0].state == "ok"
    assert (node.health[1].state, node.check("telemetry", gpu=1).state) == ("unknown", "warn")


def test_latches_outlive_a_restart() -> None:
    node = Exporter()
    node.poll(3, XID_ERRORS=0)
    node.poll(2, XID_ERRORS=48)
    kept = json.loads(json.dumps(node.pipeline.health_evaluator.dump()))
    since = node.check("xid_critical").since
    node.pipeline = Pipeline(GpuTable(), "node")
    node.pipeline.health_evaluator.restore(kept, Unix(START + node.polls * node.interval))
    node.poll(2, XID_ERRORS=0)
    assert (node.check("xid_critical").state, node.check("xid_critical").since) == ("crit", since)


@pytest.mark.parametrize("blank", [False, True], ids=["absent", "blank"])
def test_the_first_xid_is_an_event_although_the_gauge_was_not_there(blank: bool) -> None:
    node = Exporter()
    node.poll(20, **({"XID_ERRORS": BLANK} if blank else {}))
    assert node.poll(XID_ERRORS=79).state == "crit"
    assert node.poll(3).state == "crit"
    assert dict(node.health[0].xid_events)[79] == 1
    assert node.check("xid_critical").last_event == START + 20 * node.interval


@pytest.mark.parametrize("used", [1000, 10**7], ids=["plausible", "implausible"])
def test_a_code_that_appears_with_other_fields_may_be_old(used: int) -> None:
    node = Exporter()
    node.poll(20, FB_TOTAL=81559)
    assert node.poll(4, XID_ERRORS=79, FB_USED=used).severity == 2
    assert dict(node.health[0].xid_events)[79] == 0


@pytest.mark.parametrize("is_reset", [True, False])
def test_after_a_restart_of_the_host_engine_the_same_code_counts_again(is_reset: bool) -> None:
    node = Exporter()
    node.poll(3, XID_ERRORS=0)
    assert node.poll(2, XID_ERRORS=79).state == "crit"
    if is_reset:
        node.restart_energy()
    node.poll(4, XID_ERRORS=BLANK)
    assert node.check("xid_critical").state == ("unknown" if is_reset else "crit")
    assert node.poll(2, XID_ERRORS=79).state == "crit"
    assert dict(node.health[0].xid_events)[79] == 2


def test_a_failure_of_dcgm_counts_only_without_own_inputs_and_as_a_warning() -> None:
    node = Exporter()
    node.watches = {"NVLINK": 20}
    for _ in range(100):
        assert node.poll(NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL=0).state == "ok"
    node = Exporter()
    node.watches = {"NVLINK": 20}
    assert node.poll(20).state == "ok"
    assert node.poll(2).state == "warn"
    node.watches = {"NVLINK": 0}
    node.poll(41)
    assert node.check("dcgm_health").state == "ok"


def test_replays_during_an_outage_are_spread_over_it() -> None:
    node = Exporter()
    link = {"PCIE_MAX_LINK_GEN": 5, "PCIE_MAX_LINK_WIDTH": 16, "PCIE_LINK_GEN": 5, "PCIE_LINK_WIDTH": 16}
    node.poll(8, **link, PCIE_REPLAY_COUNTER=7)
    node.pause(86400)
    node.poll(40, PCIE_REPLAY_COUNTER=7 + 2 * 1440)
    assert node.check("pcie_replay").state == "ok"
    assert node.check("pcie_replay").last_event is None or node.check("pcie_replay").severity == 0
    node.pause(86400)
    for replays in range(10_000, 13_000, 100):
        node.poll(PCIE_REPLAY_COUNTER=replays)
    assert node.check("pcie_replay").state == "crit"


def test_a_narrow_link_of_an_idle_gpu_is_ok() -> None:
    link = {"PCIE_MAX_LINK_GEN": 4, "PCIE_MAX_LINK_WIDTH": 16, "PCIE_LINK_GEN": 1, "PCIE_LINK_WIDTH": 4}
    node = Exporter(A100)
    node.poll(20, GPU_UTIL=0, PSTATE=8, **link)
    assert node.check("pcie_link").state == "ok"
    node.poll(20, GPU_UTIL=95, PSTATE=0)
    assert node.check("pcie_link").state == "crit"


@pytest.mark.parametrize("interval", [0.1, 15])
@pytest.mark.parametrize("seconds", [1.1, 11, 61, 160])
def test_a_stall_of_the_source_is_no_problem_of_its_gpus(interval: float, seconds: float) -> None:
    node = Exporter(interval=interval)
    node.poll(5)
    node.pause(seconds - interval)
    for _ in range(4):
        assert node.poll().state == "ok"
        assert node.check("telemetry").state == "ok"


@pytest.mark.parametrize("seconds", [0, 5])
def test_inputs_of_a_former_list_of_fields_are_not_blank(seconds: float) -> None:
    names = ("GPU_UTIL", "ROW_REMAP_FAILURE", "ROW_REMAP_PENDING", "ECC_DBE_VOL_TOTAL", "PCIE_LINK_WIDTH", "PSTATE")
    node = Exporter(interval=1.0)
    node.poll(5, **dict.fromkeys(names, 0))
    for name in names:
        del node.values[name]
    node.pause(seconds)
    node.poll(60)
    assert node.check("telemetry").state == "ok"
    node.poll(5, **dict.fromkeys(names, 0))
    node.poll(60, **dict.fromkeys(names, BLANK))
    assert node.check("telemetry").state == "warn"


def test_a_bad_page_that_is_read_twice_raises_nothing() -> None:
    node = Exporter()
    node.poll(10, GPU_TEMP_LIMIT=30)
    assert node.repeat(2, GPU_TEMP_LIMIT=-3).state == "ok"
    assert node.poll(4).state == "ok"
    assert node.poll(2, GPU_TEMP_LIMIT=-3).state == "crit"


def test_a_bad_page_that_is_read_twice_clears_no_latch() -> None:
    node = Exporter()
    node.poll(10, XID_ERRORS=0)
    assert node.poll(4, XID_ERRORS=48).state == "crit"
    good, node.lost_energy = node.lost_energy, 1e9
    node.repeat(2)
    node.lost_energy = good
    assert node.poll(4).state == "crit"
    node.restart_energy()
    assert node.poll(2).state == "ok"


def test_a_memory_error_confirms_an_old_code_of_memory_only() -> None:
    for code, state in ((48, "crit"), (79, "ok")):
        node = Exporter()
        node.poll(3, XID_ERRORS=code, ECC_DBE_VOL_TOTAL=1)
        assert node.check("xid_critical").state == state


@pytest.mark.parametrize("model", ["NVIDIA L40S", "NVIDIA L4", "NVIDIA A10", "NVIDIA A40", "Tesla T4"])
def test_ecc_off_is_a_warning_on_every_data_centre_gpu(model: str) -> None:
    node = Exporter(model)
    node.poll(3, ECC_CURRENT=0)
    assert node.check("config_drift").state == "warn"


@pytest.mark.parametrize(
    ("nanoseconds", "state"),
    [(5e3, "ok"), (1.4e6, "ok"), (1.6e6, "info"), (1e7, "info"), (2e9, "hot")],
    ids=["microseconds", "just below", "just above", "if microseconds", "proven"],
)
def test_a_violation_counter_counts_only_for_a_share_of_the_time_that_matters(nanoseconds: float, state: str) -> None:
    node = Exporter()
    for polls in range(40):
        node.poll(THERMAL_VIOLATION=1e9 + polls * nanoseconds)
    assert node.check("thermal_sw").state == state


def test_a_critical_code_without_a_reset_stays_a_warning() -> None:
    node = Exporter(interval=600.0)
    node.poll(3, XID_ERRORS=0)
    assert node.poll(144, XID_ERRORS=48).state == "crit"
    for _ in range(300):
        assert node.poll().state == "warn"
    assert "XID 48" in node.check("xid_warning").message
    node.restart_energy()
    assert node.poll(3).state == "ok"


def test_an_old_critical_code_ends_with_the_gauge() -> None:
    node = Exporter(interval=600.0)
    node.poll(3, XID_ERRORS=0)
    node.poll(2, XID_ERRORS=48)
    assert node.poll(140, XID_ERRORS=0).state == "crit"
    assert node.poll(4).state == "ok"


def test_a_repair_that_waits_has_one_remedy() -> None:
    node = Exporter()
    node.poll(3, XID_ERRORS=0, ROW_REMAP_PENDING=0, UNCORRECTABLE_REMAPPED_ROWS=1)
    health = node.poll(3, XID_ERRORS=63, ROW_REMAP_PENDING=1, UNCORRECTABLE_REMAPPED_ROWS=2)
    remedies = {check.id: check.remedy for check in health.checks if check.severity > 0}
    assert remedies.keys() == {"xid_warning", "row_remap_pending", "row_remap_growth"}
    for id_ in ("xid_warning", "row_remap_pending"):
        assert "reset the GPU when the current jobs finish" in remedies[id_]
    assert "stop the jobs" not in "".join(remedies.values())
