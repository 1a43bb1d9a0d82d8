"""Health of one GPU over time: when it is evaluated, and what is remembered."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pulsed.compute.health.settings import HealthSettings
from pulsed.model.raw_tick import Epoch, Layout, Series
from tests.compute.health.sim import GPU, OTHER, Sim
from tests.compute.streams import DAY

STEADY: Mapping[str, float | None] = {
    "temperature_celsius": 60.0,
    "temperature_margin_celsius": 27.0,
    "power_watts": 300.0,
    "gpu_utilization_ratio": 0.5,
    "clocks_event_reasons": 0.0,
    "xid_last_code": 0.0,
    "pcie_replays_total": 5.0,
    "row_remap_pending": 0.0,
    "performance_state": 0.0,
}
"""Of a healthy GPU."""


def test_checks_are_evaluated_on_the_newest_sample_once_a_second() -> None:
    sim, found = Sim(interval=0.1), []
    for number in range(31):
        pending = {10: 1.0, 14: 1.0, 20: 1.0}.get(number, 0.0)  # the one in between is not seen
        check = sim.check("row_remap_pending", **{**STEADY, "row_remap_pending": pending})
        found.append((check.state, check.since and round(check.since - DAY, 3)))
    assert found == [("ok", 0.1)] * 10 + [("warn", 1.1)] * 20 + [("ok", 3.1)]


@pytest.mark.parametrize("interval", [1.0, 1.3, 30.0])
def test_samples_that_are_a_second_apart_or_more_are_all_evaluated(interval: float) -> None:
    sim = Sim(interval=interval)
    states = []
    for number in range(20):
        late = 0.9 if number % 2 else 1.1
        states.append(
            sim.check("row_remap_pending", after=late * interval, **{**STEADY, "row_remap_pending": number % 2.0}).state
        )
    assert states == ["ok", "warn"] * 10


def test_events_between_two_evaluations_are_counted_at_the_next_one() -> None:
    sim, xids = Sim(interval=0.1), []
    for number in range(21):
        values = {
            "xid_last_code": {3: 13.0, 4: 31.0, 5: 48.0}.get(number, 48.0 if number > 5 else 0.0),
            "ecc_dbe_aggregate_total": 4.0 + (number > 6) + (number > 7),
            "clocks_event_reasons": 64.0 if number == 8 else 0.0,
        }
        tick = sim.tick({**STEADY, **values})
        xids += [(event.code, number) for event in tick.xids]
        health = tick.healths[0]
        if number in (9, 10):
            codes = {code for code, count in health.xid_events if count}
            assert codes == ({13, 31, 48} if number == 10 else set())
            assert dict(health.events)["ecc_uncorrectable"] == (2 if number == 10 else 0)
    assert xids == [(13, 3), (31, 4), (48, 5)], "the events themselves come with their sample"
    assert health.check("xid_critical").last_event == pytest.approx(DAY + 0.6)
    for _ in range(40):
        tick = sim.tick({**STEADY, "xid_last_code": 48.0})
    assert dict(tick.clock_event_shares[0])["hw_thermal"] == pytest.approx(0.1 / 5, abs=0.001)


def test_a_raised_check_has_its_present_numbers() -> None:
    sim = Sim()
    for margin in (4.0, 3.0):
        check = sim.run(12, "temp_margin", **{**STEADY, "temperature_margin_celsius": margin})
        assert check.state == "warn"
        assert dict(check.evidence)["temperature_margin_celsius"] == margin
        assert f"temperature limit is {margin:g} °C" in check.remedy
    assert check.since == DAY + 11


def test_times_of_events_do_not_follow_the_jitter_of_the_wall_clock() -> None:
    sim = Sim()
    sim.health(**STEADY)
    found = []
    for jitter in (0.0, 0.2, -0.3, 0.1):
        sim.time += jitter
        found.append(sim.health(**{**STEADY, "xid_last_code": 48.0}))
    assert len({health.xid_last for health in found}) == 1
    assert len({health.check("xid_critical").last_event for health in found}) == 1


def test_the_clock_of_a_gpu_starts_at_0_and_continues_over_a_restart() -> None:
    def saved() -> Mapping[str, float]:
        document = sim.health_evaluator.dump()
        gpus = document["gpus"]
        assert isinstance(gpus, dict)
        return next(iter(gpus.values()))

    sim = Sim()
    sim.health(**STEADY)
    assert (saved()["now"], saved()["saved"]) == (0.0, sim.time)
    for _ in range(5):
        sim.health(**STEADY)
    assert saved()["now"] == 5.0
    sim.restart(down=10.0)
    sim.health(**STEADY)
    assert saved()["now"] == 16.0
    sim.health(**STEADY)
    assert saved()["now"] == 17.0


def test_what_must_survive_a_restart_changes_the_number_of_latches() -> None:
    sim = Sim()

    def latched(**values: float | None) -> int:
        sim.health(**{**STEADY, **values})
        (number,) = sim.health_evaluator.latched.values()
        return number

    start = [latched() for _ in range(7)][-1]
    steps = []
    for values in ({}, {"xid_last_code": 45.0}, {"xid_last_code": 0.0}, {"row_remap_pending": 1.0}, {}, {}):
        before, start = start, latched(**values)
        steps.append(start - before)
    assert steps == [0, 1, 0, 1, 1, 0]
    for boot_id, step in (("a", 1), ("a", 0), ("b", 2), ("", 0), ("b", 0)):
        sim.epoch = Epoch(boot=boot_id)
        before, start = start, latched()
        assert start - before == step, boot_id


def test_a_gpu_without_any_input_ever_is_not_blank() -> None:
    sim = Sim(devices=[GPU, OTHER])
    for _ in range(60):
        tick = sim.tick({}, STEADY)
    telemetry = tick.healths[0].check("telemetry")
    assert (telemetry.state, tick.healths[0].state) == ("ok", "unknown")


@pytest.mark.parametrize(("left", "state"), [(1, "warn"), (2, "warn"), (3, "ok"), (4, "ok")])
def test_telemetry_warns_after_half_a_minute_without_half_of_the_inputs(left: int, state: str) -> None:
    names = ("row_remap_pending", "row_remap_failure", "ecc_mode", "memory_unrepairable")
    sim = Sim()
    inputs = dict.fromkeys(names, 0.0)
    vital = {"power_watts": 100.0}  # no rule depends on it
    assert sim.run(40, "telemetry", **inputs, **vital).state == "ok"
    for number in range(1, 32):
        check = sim.check("telemetry", **dict.fromkeys(names[:left], 0.0), **vital, sm_clock_hertz=float(number))
        assert check.state == (state if number == 31 else "ok")
    assert sim.run(1, "telemetry", **inputs, **vital).state == "ok"


def test_a_new_layout_of_the_source_has_other_inputs() -> None:
    sim = Sim()
    sim.run(10, "telemetry", temperature_celsius=40.0, row_remap_failure=0.0, row_remap_pending=0.0, ecc_mode=1.0)
    sim.layout = Layout("exporter", (Series("DCGM_FI_DEV_GPU_TEMP", ()),))
    assert sim.run(60, "telemetry", temperature_celsius=40.0).state == "ok"
    assert sim.run(60, "telemetry", power_watts=40.0).state == "warn", "the one that was left"


def test_a_slowdown_counts_only_for_a_busy_gpu() -> None:
    for utilization, state in ((0.0, "ok"), (0.01, "warn")):
        sim = Sim()
        values = {**STEADY, "clocks_event_reasons": 8.0, "gpu_utilization_ratio": utilization}
        assert sim.run(130, "hw_slowdown", **values).state == state


def test_xids_of_a_configuration_without_their_checks_are_counted() -> None:
    sim = Sim(HealthSettings(disabled=frozenset({"xid_critical", "xid_warning", "xid_repeat", "gpu_lost"})))
    sim.health(**STEADY)
    assert dict(sim.health(**{**STEADY, "xid_last_code": 13.0}).xid_events)[13] == 1


def test_a_code_of_unknown_age_changes_the_number_of_latches() -> None:
    sim = Sim(HealthSettings(disabled=frozenset({"xid_warning"})))
    for _ in range(7):
        sim.health(**{**STEADY, "xid_last_code": None})
    (before,) = sim.health_evaluator.latched.values()
    health = sim.health(**{**STEADY, "xid_last_code": 79.0, "memory_used_bytes": 1e9})
    (after,) = sim.health_evaluator.latched.values()
    assert health.xid_last is not None
    assert (health.xid_last.code, health.xid_last.time) == (79, None)
    raised = [check.id for check in health.checks if check.since == sim.time]
    assert after - before == 1 + len(raised)


@pytest.mark.parametrize(
    ("after", "errors", "state"),
    [(60.0, 1.0, "warn"), (180.0, 1.0, "warn"), (240.0, 4.0, "warn"), (240.0, 3.9, "ok")],
)
def test_a_rate_is_shared_out_over_the_time_without_samples(after: float, errors: float, state: str) -> None:
    sim = Sim(interval=60.0)
    sim.health(nvlink_crc_errors_total=0.0)
    assert sim.check("nvlink_errors", after=after, nvlink_crc_errors_total=errors).state == state
