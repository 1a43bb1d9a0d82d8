"""All GPUs of a node: which are lost, which inherit, and what outlives a restart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health.summary import unobserved
from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.target_gpus import Tracker
from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import Health
from pulsed.model.raw_tick import Epoch, KernelEvent
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Reading
from tests.compute.health.sim import GPU, INSTANCE, OTHER, Sim
from tests.compute.streams import DAY, sample

ALIVE = {"temperature_celsius": 40.0, "power_watts": 100.0, "xid_last_code": 0.0}


def bus_loss(sim: Sim, device: Device = OTHER) -> KernelEvent:
    return KernelEvent("bus_loss", 79, Unix(sim.time), device.pci_bus_id, text="fallen off the bus")


def test_a_gpu_that_vanishes_and_that_the_driver_reports_as_lost_is_lost_after_two_polls() -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    seen, sim.lost = sim.time, frozenset({OTHER.entity.uuid})
    tick = sim.tick(ALIVE, devices=[GPU])
    assert tick.missing == ()
    tick = sim.tick(ALIVE)
    (lost,) = tick.missing
    assert (lost.device, lost.last_seen, lost.since) == (OTHER, seen, seen + 1)
    assert lost.health.state == "crit"
    assert lost.health.check("gpu_lost").state == "crit"
    assert lost.health.check("row_remap_failed").state == "unknown"
    assert [(change.device, change.check, change.after) for change in tick.changes if change.after == "crit"] == [
        (OTHER, "gpu_lost", "crit"),
        (OTHER, "", "crit"),
    ]
    assert sim.tick(ALIVE).missing[0].device is OTHER
    tick = sim.tick(ALIVE, ALIVE, devices=[GPU, OTHER])
    assert tick.missing == ()
    assert tick.healths[1].check("gpu_lost").state == "crit"
    for _ in range(61):
        tick = sim.tick(ALIVE, ALIVE)
    assert tick.healths[1].check("gpu_lost").state == "ok"


def test_a_gpu_that_the_source_no_longer_lists_is_unknown() -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    for _ in range(3):
        tick = sim.tick(ALIVE, devices=[GPU])
    (missing,) = tick.missing
    health = missing.health
    assert (health.state, health.check("gpu_lost").state) == ("unknown", "unknown")
    telemetry = health.check("telemetry")
    assert (telemetry.state, telemetry.evidence) == ("warn", (("polls_unlisted", 2.0),))
    assert telemetry.message == "Readings are absent, blank or frozen: the source no longer lists this GPU"
    assert "drain" not in telemetry.remedy
    tick = sim.tick(ALIVE, ALIVE, devices=[GPU, OTHER])
    assert (tick.missing, tick.healths[1].state) == ((), "ok")


def test_an_xid_79_that_comes_after_the_gpu_has_left_the_list_is_evidence() -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE, kernel_events=())
    for _ in range(5):
        tick = sim.tick(ALIVE, devices=[GPU], kernel_events=())
    assert tick.missing[0].health.state == "unknown"
    tick = sim.tick(ALIVE, devices=[GPU], kernel_events=(bus_loss(sim),))
    assert tick.missing[0].health.check("gpu_lost").state == "crit"
    for _ in range(5):
        tick = sim.tick(ALIVE, devices=[GPU], kernel_events=())
        sim.time += DAY / 2
    assert tick.missing[0].health.check("gpu_lost").state == "crit", "it has not answered since"


@pytest.mark.parametrize(
    ("driver", "state"), [("nvidia", "unknown"), ("", "crit"), ("vfio-pci", None), (None, "unknown")]
)
def test_a_gpu_on_the_bus_without_a_driver_is_lost_and_one_of_a_guest_is_not_missing(
    driver: str | None, state: str | None
) -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    sim.pci_drivers = {"00000000:1B:00.0": "nvidia"} | ({} if driver is None else {OTHER.pci_bus_id: driver})
    for _ in range(3):
        tick = sim.tick(ALIVE, devices=[GPU])
    assert [missing.health.state for missing in tick.missing] == ([] if state is None else [state])
    sim.pci_drivers = {"00000000:1B:00.0": "nvidia", OTHER.pci_bus_id: "nvidia"}
    tick = sim.tick(ALIVE, devices=[GPU])
    assert [missing.device for missing in tick.missing] == ([] if state is None else [OTHER])


def test_no_gpu_has_a_driver_while_that_is_not_loaded() -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    sim.pci_drivers = {"00000000:1B:00.0": "", OTHER.pci_bus_id: ""}
    for _ in range(3):
        tick = sim.tick(ALIVE, devices=[GPU])
    assert [missing.health.state for missing in tick.missing] == ["unknown"]


def test_a_row_of_blanks_is_a_lost_gpu_too() -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    sim.tick(ALIVE, {})
    tick = sim.tick(ALIVE, {"row_remap_failure": 0.0})
    assert tick.healths[1].check("gpu_lost").state == "crit"
    assert tick.missing == ()


@pytest.mark.parametrize("temperatures", [(50.0, 50.0), (50.0, 51.0)], ids=["constant", "not constant"])
def test_a_gpu_that_has_lost_most_of_its_readings_is_noticed_without_its_energy_counter(
    temperatures: tuple[float, float],
) -> None:
    sim = Sim(interval=5.0)
    full = {"temperature_celsius": 50.0, "xid_last_code": 0.0, "row_remap_failure": 0.0, "row_remap_pending": 0.0}
    full |= {"remapped_rows_uncorrectable_total": 0.0, "pcie_replays_total": 0.0, "clocks_event_reasons": 0.0}
    for number in range(5):
        watts = 100.0 + number
        assert sim.health(**full, power_watts=watts, energy_joules_total=1e6 + 500.0 * number).state == "ok"
    states = [sim.check("telemetry", temperature_celsius=temperatures[number % 2]).state for number in range(8)]
    assert states == ["ok"] * 6 + ["warn"] * 2


def test_a_moment_of_silence_at_ten_hertz_is_nothing() -> None:
    sim = Sim(interval=0.1, devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    for _ in range(5):
        tick = sim.tick(ALIVE, {})
    assert tick.healths[1].check("gpu_lost").state == "ok"


def test_a_source_without_any_gpu_is_not_evidence_about_one() -> None:
    sim = Sim(interval=15.0, devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    for _ in range(20):
        tick = sim.tick(devices=[])
        assert (tick.missing, tick.changes) == ((), ())
    tick = sim.tick(ALIVE, ALIVE, devices=[GPU, OTHER])
    assert [health.state for health in tick.healths] == ["ok", "ok"]


def test_the_only_gpu_of_a_node_is_lost_with_evidence() -> None:
    sim = Sim(devices=[OTHER])
    sim.tick(ALIVE, kernel_events=())
    sim.tick(devices=[], kernel_events=(bus_loss(sim),))
    for _ in range(2):
        tick = sim.tick(devices=[], kernel_events=())
    assert [missing.health.state for missing in tick.missing] == ["crit"]


def test_a_gpu_that_is_split_is_not_lost() -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    for _ in range(5):
        tick = sim.tick({}, ALIVE, devices=[INSTANCE, OTHER])
        assert tick.missing == ()
    for _ in range(5):
        tick = sim.tick(ALIVE, ALIVE, devices=[GPU, OTHER])
    assert tick.missing == ()
    assert tick.healths[0].check("gpu_lost").state == "ok"


def test_parts_have_the_health_of_their_board() -> None:
    sim = Sim(devices=[GPU, INSTANCE])
    sim.tick(ALIVE, {})
    tick = sim.tick({**ALIVE, "row_remap_pending": 1.0}, {"sm_active_ratio": 0.5})
    assert tick.healths[1] is tick.healths[0]
    assert tick.healths[1].state == "warn"


def test_a_gpu_whose_uuid_becomes_known_is_the_same() -> None:
    sim = Sim(devices=[Device(Entity("gpu", "0", node="n"))])
    sim.tick(ALIVE)
    sim.tick({**ALIVE, "xid_last_code": 48.0})
    for _ in range(5):
        tick = sim.tick({**ALIVE, "xid_last_code": 48.0}, devices=[GPU])
    assert tick.missing == ()
    assert tick.healths[0].check("xid_critical").state == "crit"


def test_a_restart_keeps_latches() -> None:
    sim = Sim()
    sim.health(**ALIVE, ecc_dbe_aggregate_total=3.0)
    sim.health(**{**ALIVE, "xid_last_code": 48.0}, ecc_dbe_aggregate_total=4.0)
    event = sim.time
    sim.restart(down=600.0)
    tick = sim.tick({**ALIVE, "xid_last_code": 48.0, "ecc_dbe_aggregate_total": 4.0})
    health = tick.healths[0]
    for id_ in ("xid_critical", "ecc_uncorrectable"):
        assert health.check(id_).state == "crit"
        assert health.check(id_).since == event
        assert health.check(id_).last_event == pytest.approx(event)
    assert [change.check for change in tick.changes if change.check] == []
    sim.restart(down=86000.0)
    health = sim.health(**{**ALIVE, "xid_last_code": 48.0}, ecc_dbe_aggregate_total=4.0)
    assert health.check("xid_critical").state == "ok"


def test_a_gpu_that_did_not_come_back_after_a_restart_is_missing() -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    sim.restart()
    for _ in range(3):
        tick = sim.tick(ALIVE, devices=[GPU])
    (missing,) = tick.missing
    assert (missing.device.entity, missing.device.model) == (OTHER.entity, OTHER.model)
    for boot_id in ("another", "and another"):
        sim.restart()
        sim.epoch = Epoch(boot=boot_id)
        for _ in range(3):
            tick = sim.tick(ALIVE)
        assert [one.device.entity for one in tick.missing] == [OTHER.entity]


def test_what_happened_meanwhile_is_an_event() -> None:
    sim = Sim()
    sim.health(**ALIVE, ecc_dbe_aggregate_total=3.0)
    sim.restart()
    health = sim.health(**{**ALIVE, "xid_last_code": 79.0}, ecc_dbe_aggregate_total=5.0)
    assert health.check("xid_critical").state == "crit"
    assert health.check("ecc_uncorrectable").state == "crit"


def test_a_restart_of_the_node_clears_what_asked_for_it() -> None:
    sim = Sim()
    sim.epoch = Epoch(boot="one")
    sim.health(**ALIVE)
    sim.health(**{**ALIVE, "xid_last_code": 79.0})
    sim.restart()
    sim.epoch = Epoch(boot="two")
    assert sim.health(**ALIVE).check("xid_critical").state == "ok"


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"version": 2, "gpus": {}},
        {"version": 1, "gpus": []},
        {"version": 1, "gpus": {"a": {}}},
        {"version": 1, "gpus": {"a": 1}},
        {"version": 1, "gpus": {"a": {"saved": "x"}}},
    ],
)
def test_another_document_than_a_dump_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"saved state: (version|target|gpus)"):
        HealthEvaluator(GpuTable(), Tracker(GpuTable())).restore(document, Unix(0.0))


def test_a_dump_is_small() -> None:
    sim = Sim()
    for k in range(300):
        sim.health(**{**ALIVE, "xid_last_code": float(k % 170)}, ecc_sbe_aggregate_total=float(k))
    assert len(json.dumps(sim.health_evaluator.dump())) < 40_000


def test_a_clock_that_begins_anew_moves_no_latch() -> None:
    sim = Sim()
    sim.health(**ALIVE)
    sim.health(**{**ALIVE, "xid_last_code": 48.0})
    sim.clock = 0.0
    assert sim.health(**{**ALIVE, "xid_last_code": 48.0}).check("xid_critical").state == "crit"


def test_new_settings_keep_latches() -> None:
    sim = Sim()
    sim.health(**ALIVE)
    sim.health(**{**ALIVE, "xid_last_code": 48.0})
    sim.table.configure(ComputeSettings(health=HealthSettings(disabled=frozenset({"temp_gpu"}))))
    health = sim.health(**{**ALIVE, "xid_last_code": 48.0})
    assert health.check("xid_critical").state == "crit"
    with pytest.raises(KeyError):
        health.check("temp_gpu")


def test_new_settings_change_no_other_check_and_no_counter() -> None:
    sim = Sim(devices=(GPU, OTHER))
    sim.tick(ALIVE, ALIVE)
    for _ in range(3):
        before = sim.tick(ALIVE, {}).healths[1]
    assert before.check("gpu_lost").state == "crit"
    without = frozenset({"temp_gpu"})
    for settings in (HealthSettings(disabled=without), HealthSettings(disabled=without, forget_after=DAY)):
        sim.table.configure(ComputeSettings(health=settings))
        tick = sim.tick(ALIVE, {})
        assert tick.changes == ()
        assert tick.healths[1].check("gpu_lost") == before.check("gpu_lost")
        assert dict(tick.healths[1].events)["gpu_lost"] == 1


def test_a_check_with_new_limits_keeps_its_count_of_events() -> None:
    sim = Sim()
    sim.health(**ALIVE)
    before = sim.health(**ALIVE, row_remap_failure=1.0)
    assert dict(before.events)["row_remap_failed"] == 1
    sim.table.configure(ComputeSettings(health=HealthSettings(thresholds={"row_remap_failed": {"crit": 0.5}})))
    health = sim.health(**ALIVE, row_remap_failure=1.0)
    assert dict(health.events)["row_remap_failed"] == 1
    assert health.check("row_remap_failed").since == before.check("row_remap_failed").since


def test_of_a_gpu_that_is_not_observed_nothing_is_known() -> None:
    warm = Sim().health(**ALIVE, persistence_mode=0.0)
    health = unobserved(warm, Unix(5.0), 12.0, "connection refused")
    assert (warm.state, health.state, health.coverage) == ("info", "unknown", 0.0)
    assert {check.state for check in health.checks} == {"unknown"}
    assert health.check("config_drift").message == ""
    assert health.check("telemetry").message == "connection refused"


@pytest.mark.parametrize(("hours", "state"), [(1, "crit"), (25, "unknown")])
def test_a_defect_of_a_gpu_that_is_not_observed_is_kept_for_a_day(hours: int, state: str) -> None:
    broken = Sim().health(**ALIVE, row_remap_failure=1.0)
    assert unobserved(broken, Unix(5.0), 3600.0 * hours, "connection refused").state == state


def test_changes_tell_what_and_what_to_do() -> None:
    sim = Sim()
    sim.tick(ALIVE)
    tick = sim.tick({**ALIVE, "row_remap_failure": 1.0})
    check, whole = tick.changes
    assert (check.check, check.before, check.after) == ("row_remap_failed", "unknown", "crit")
    assert check.remedy.startswith("Row repair failed")
    assert (whole.check, whole.before, whole.after, whole.message) == ("", "ok", "crit", check.message)
    assert sim.tick({**ALIVE, "row_remap_failure": 1.0}).changes == ()


def test_a_first_sample_has_changes_only_where_something_is_raised() -> None:
    assert Sim().tick({**ALIVE, "row_remap_failure": 0.0}).changes == ()
    found = [(change.check, change.after) for change in Sim().tick({**ALIVE, "row_remap_failure": 1.0}).changes]
    assert found[0] == ("row_remap_failed", "crit")


def test_the_end_of_a_problem_is_a_change() -> None:
    sim = Sim()
    sim.tick({**ALIVE, "row_remap_pending": 1.0})
    sim.tick({**ALIVE, "row_remap_pending": 1.0})
    changes = sim.tick({**ALIVE, "row_remap_pending": 0.0}).changes
    assert ("row_remap_pending", "warn", "ok") in [(change.check, change.before, change.after) for change in changes]


def evaluated(table: GpuTable, tracker: Tracker, evaluator: HealthEvaluator, tick: Tick) -> Health:
    """The health of the first GPU of a tick."""
    tracked = tracker.track(tick)
    evaluator.evaluate(tick, tracked)
    return table.health_of(tracked.states[0]).health


def test_a_gpu_takes_the_kernels_messages_of_its_own_address() -> None:
    device = replace(GPU, pci_bus_id="00000000:3B:00.0")
    table = GpuTable()
    tracker = Tracker(table)
    evaluator = HealthEvaluator(table, tracker)

    def events_after(clock: float, *events: KernelEvent) -> set[int]:
        tick = replace(sample(clock, Reading(**ALIVE), devices=[device]), kernel_events=events)
        health = evaluated(table, tracker, evaluator, tick)
        return {int(code) for code, count in health.xid_events if count}

    assert events_after(1.0) == set()
    other, switch = "00000000:5E:00.0", KernelEvent("sxid", 94, Unix(DAY + 2.0), "00000000:3B:00.0")
    assert events_after(2.0, KernelEvent("xid", 48, Unix(DAY + 2.0), other), switch) == set()
    assert events_after(3.0, KernelEvent("xid", 48, Unix(DAY + 3.0), device.pci_bus_id)) == {48}


@pytest.mark.parametrize(("events", "value"), [(None, None), ((), 1.0)])
def test_the_kernel_log_is_an_input_while_it_is_read(events: tuple[()] | None, value: float | None) -> None:
    table = GpuTable()
    tracker = Tracker(table)
    tick = replace(sample(1.0, Reading(**ALIVE)), kernel_events=events)
    evaluator = HealthEvaluator(table, tracker)
    health = evaluated(table, tracker, evaluator, tick)
    assert dict(health.check("xid_critical").evidence).get("kernel_log") == value


def test_a_saved_gpu_that_was_not_seen_yet_has_another_number_of_latches_than_any_seen_one() -> None:
    sim = Sim(devices=[GPU, OTHER])
    sim.tick(ALIVE, ALIVE)
    sim.restart()
    assert set(sim.health_evaluator.latched.values()) == {-1}
    sim.tick(ALIVE, ALIVE)
    assert min(sim.health_evaluator.latched.values()) >= 0


def test_xids_that_happened_are_events_once() -> None:
    sim = Sim(HealthSettings(xids={31: "warn"}))
    assert sim.tick(ALIVE).xids == ()
    (event,) = sim.tick(ALIVE | {"xid_last_code": 31.0}).xids
    assert (event.device, event.code, event.severity, event.time) == (GPU, 31, "warn", sim.time)
    assert (event.count, event.total) == (1, 1)
    assert sim.tick(ALIVE | {"xid_last_code": 31.0}).xids == ()
    assert sim.tick(ALIVE | {"xid_last_code": 31.0}, after=0.0).xids == ()
    sim.restart()
    assert sim.tick(ALIVE | {"xid_last_code": 31.0}).xids == ()
    sim.restart()
    (event,) = sim.tick(ALIVE | {"xid_last_code": 79.0}).xids
    assert (event.code, event.severity) == (79, "crit")


def test_an_xid_from_before_the_start_is_no_event() -> None:
    sim = Sim()
    assert sim.tick(ALIVE | {"xid_last_code": 48.0}).xids == ()


def test_messages_of_the_kernel_are_events_with_their_own_time() -> None:
    gpu = replace(GPU, pci_bus_id="00000000:1B:00.0")
    table = GpuTable()
    tracker = Tracker(table)
    evaluator = HealthEvaluator(table, tracker)

    def xids(clock: float, *events: KernelEvent) -> list[tuple[int, float, int, int]]:
        tick = replace(sample(clock, Reading(**ALIVE), devices=[gpu]), kernel_events=events)
        evaluator.evaluate(tick, tracker.track(tick))
        return [(each.code, round(each.time - DAY, 3), each.count, each.total) for each in tick.xids]

    assert xids(10.0) == []
    messages = [KernelEvent("xid", 31, Unix(DAY + second), gpu.pci_bus_id) for second in (10.25, 10.5)]
    assert xids(11.0, *messages) == [(31, 10.5, 2, 2)]
    assert xids(12.0) == []


def test_the_time_without_a_gpu_that_returns_was_observed() -> None:
    sim = Sim(devices=[GPU, OTHER])
    for _ in range(5):
        sim.tick(ALIVE, ALIVE)
    for _ in range(30):
        sim.tick(ALIVE, devices=[GPU])
    assert sim.last is not None
    tick = sim.tick(ALIVE, ALIVE, devices=[GPU, OTHER])
    assert [health.check("telemetry").state for health in tick.healths] == ["ok", "ok"]


def test_the_change_of_a_gpu_names_the_worst_check_that_applies() -> None:
    sim = Sim()
    sim.tick(ALIVE)
    hot = {**ALIVE, "temperature_celsius": 95.0, "temperature_margin_celsius": 20.0}  # superseded by the margin
    for _ in range(40):
        tick = sim.tick({**hot, "persistence_mode": 0.0})
    assert tick.healths[0].state == "info"
    sim = Sim()
    sim.tick(ALIVE)
    (check, whole) = sim.tick({**ALIVE, "persistence_mode": 0.0}).changes
    assert (check.check, whole.check, whole.message) == ("config_drift", "", "Unexpected GPU settings")
