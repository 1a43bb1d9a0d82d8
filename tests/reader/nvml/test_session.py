from __future__ import annotations

import contextlib
import itertools
import re
from collections import deque
from pathlib import Path

import pytest

from pulsed.errors import (
    DriverMismatch,
    DriverReleased,
    DriverUnavailable,
    GpuLost,
    NvmlError,
    NvmlMissing,
    NvmlRefused,
    SourceError,
    TooManyGpus,
)
from pulsed.reader.nvml import NvmlSettings
from pulsed.reader.nvml.library import ENDED, GONE, REFUSALS
from pulsed.reader.nvml.xids import MAX_CODES
from tests.reader.nvml.sessions import Reader, reading
from tests.support.examples import SHARE
from tests.support.nvml_standin import boards
from tests.support.nvml_standin.library import NOTHING_HELD, SOURCE, LoadedStandin
from tests.support.ticks import extras_of, readings_of

FUNCTIONS = sorted(set(re.findall(r"\b(nvml[A-Z]\w+)\b(?=\(|,)", SOURCE.read_text())) - {"nvmlGpmSampleFree"})
CODES = [*range(1, 30), 999]
KINDS_OF_CODES = sorted({*REFUSALS, *GONE, *ENDED, 2, 7, 17, 19, 999})
"""Those that mean something to the reader, and some of the others."""

EIGHT_H100 = [boards.hopper(index) for index in range(8)]


def test_eight_h100_have_base_units_and_an_identity(nvml: LoadedStandin) -> None:
    nvml.gpus = list(EIGHT_H100)
    nvml.write()
    with reading() as reader:
        reader.tick()
        tick = reader.tick()
    assert [device.entity.uuid for device in tick.devices] == [boards.uuid_of(index) for index in range(8)]
    device, found = tick.devices[3], tick.gpus[3].reading
    assert (device.entity.gpu, device.model, device.pci_bus_id) == ("3", "NVIDIA H100 80GB HBM3", "00000003:3B:00.0")
    assert (device.device, device.driver_version, device.entity.node) == ("nvidia3", "580.105.08", "node")
    assert found.sm_active_ratio == 0.883
    assert found.pcie_receive_bytes_per_second == 5016 * 2**20
    assert found.nvlink_receive_bytes_per_second == 29_219 * 2**20
    assert found.memory_bytes == 81559 * 2**20
    assert found.memory_used_bytes == 40_000 * 2**20
    assert found.memory_free_bytes == (81559 - 561 - 40_000) * 2**20
    assert (found.power_watts, found.power_limit_watts) == (640.25, 700.0)
    assert (found.sm_clock_hertz, found.temperature_celsius, found.gpu_utilization_ratio) == (1.98e9, 44.0, 0.37)
    assert found.nvlink_transmit_bytes_total is not None
    assert found.nvlink_transmit_bytes_total >= 1000 * 1024
    assert (found.fabric_manager_status, found.xid_last_code, found.recovery_action) == (3.0, 0.0, 0.0)


def test_a_superchip_has_its_fabric_its_place_and_its_links(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.superchip(0), boards.hopper(1)]
    nvml.write()
    with reading() as reader:
        tick = reader.tick()
        first, other = tick.devices
        assert first.fabric == "00000000-0000-0000-0000-000000000007/32766"
        assert first.platform == ("1821225190812", "23", "13", "1", "1")
        assert (other.fabric, other.platform) == ("", ()), "no cluster"
        assert extras_of(tick)[0].nvlink_states == tuple([(link, 1.0) for link in range(18)])
        assert extras_of(tick)[0].nvlink_counters is None, "clean links have no series for their counters"
        nvml.gpus[0] |= {f"link.{1000 * 14 + 213}": 505, f"link.{1000 * 14 + 165}": 0, "fabric.clique": 1}
        nvml.write()
        assert reader.tick(30.0).devices[0].fabric.endswith("/32766"), "not read with every tick"
        tick = reader.tick(60.0)
        assert tick.devices[0].fabric.endswith("/1")
        tick = reader.tick(60.0)
    found = extras_of(tick)[0]
    assert dict(found.nvlink_states or ())[14] == 0.0
    assert dict(found.nvlink_counters or ())[14] == (("link_recoveries_successful", 505.0),)
    assert len(found.nvlink_counters or ()) == 18


def test_the_errors_of_a_gpu_are_those_of_its_links_where_the_driver_has_no_sum(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.superchip(0), boards.hopper(1)]
    for link in range(18):
        nvml.gpus[0] |= {f"link.{1000 * link + field}": 0 for field in (161, 162, 163)}
    nvml.gpus[0] |= {"link.5163": 7, "link.9163": 2, "link.5161": 1}
    nvml.write()
    with reading() as reader:
        numbers = reader.numbers()
        assert numbers["0"]["nvlink_crc_errors_total"] == 9.0
        assert (numbers["0"]["nvlink_replay_errors_total"], numbers["0"]["nvlink_recovery_errors_total"]) == (1.0, 0.0)
        nvml.gpus[0] |= {"link.5163": 8}
        nvml.write()
        assert reader.numbers(1.0)["0"]["nvlink_crc_errors_total"] == 9.0
        assert reader.numbers(10.0)["0"]["nvlink_crc_errors_total"] == 10.0


def test_profiling_counters_begin_with_the_second_sample(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write()
    with reading() as reader:
        first, second = reader.numbers()["0"], reader.numbers()["0"]
    assert "sm_active_ratio" not in first
    assert second["sm_active_ratio"] == 0.883


def test_gpus_that_refuse_the_same_counters_change_the_series_once(nvml: LoadedStandin) -> None:
    nvml.gpus = list(EIGHT_H100)
    nvml.write()
    with reading() as reader:
        layouts = [reader.tick().layout for _ in range(5)]
    assert layouts[0] is not layouts[1], "the first counters come with the second sample"
    assert all(layout is layouts[1] for layout in layouts[2:])


def test_at_10_hz_pairs_of_samples_are_further_apart_than_100_ms(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write()
    with reading(NvmlSettings(interval=0.1)) as reader:
        has_any = ["sm_active_ratio" in reader.numbers(seconds)["0"] for seconds in (0.1, 0.09, 0.09, 0.09, 0.09)]
        assert has_any == [False, False, True, True, True]
        assert "sm_active_ratio" not in reader.numbers(60.0)["0"], "a pair over a gap is not a sample"
        assert "sm_active_ratio" in reader.numbers(0.2)["0"]
        nvml.gpus[0]["gpm.2"] = 50.0
        nvml.write()
        values = [reader.numbers(0.1)["0"]["sm_active_ratio"] for _ in range(4)]
        assert values == [0.883, 0.5, 0.5, 0.5], "every second tick has a sample, whose values hold for two"


def test_at_10_hz_every_second_tick_is_the_sample_before_as_a_whole(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper()]
    found = []
    with reading(NvmlSettings(interval=0.1)) as reader:
        for number in range(5):
            nvml.gpus[0] |= {"fi.185": 1000 * number, "fi.83": 1000 * number, "clock.1": number}
            nvml.write()
            calls = nvml.count("calls")
            now = reader.numbers(0.1)["0"]
            found.append((now["power_watts"], now["energy_joules_total"], now["sm_clock_hertz"] / 1e6))
            assert (nvml.count("calls") > calls) == (number % 2 == 0)
    assert found == [(0, 0, 0), (0, 0, 0), (2, 2, 2), (2, 2, 2), (4, 4, 4)]


def test_at_10_hz_no_sample_outlives_its_session(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write()
    with reading(NvmlSettings(interval=0.1)) as reader:
        reader.tick(0.1)
        reader.session.close()
        nvml.write(all_error=9)
        with pytest.raises(DriverUnavailable):
            reader.tick(0.1)


@pytest.mark.parametrize("interval", [0.2, 0.5, 1.0])
def test_at_5_hz_and_slower_the_driver_is_read_with_every_tick(nvml: LoadedStandin, interval: float) -> None:
    nvml.gpus = [boards.hopper()]
    with reading(NvmlSettings(interval=interval)) as reader:
        for number in range(4):
            nvml.gpus[0]["fi.185"] = 1000 * number
            nvml.write()
            assert reader.numbers(interval)["0"]["power_watts"] == number


@pytest.mark.parametrize(
    ("board", "has", "lacks"),
    [
        (boards.pascal(), {"power_watts", "retired_pages_sbe_total"}, {"energy_joules_total", "sm_active_ratio"}),
        (boards.turing(), {"energy_joules_total", "fan_speed_ratio"}, {"memory_temperature_celsius"}),
        (boards.ampere(), {"row_remap_pending", "nvlink_transmit_bytes_total"}, {"retired_pages_sbe_total"}),
        (boards.hopper(), {"temperature_margin_celsius", "fabric_health_summary"}, {"fan_speed_ratio"}),
        (
            boards.blackwell(),
            {"nvlink_symbol_errors_total", "nvlink_transmit_bytes_total"},
            {"nvlink_crc_errors_total"},
        ),
        (boards.vgpu_guest(), {"memory_used_bytes", "gpu_utilization_ratio"}, {"power_watts", "temperature_celsius"}),
    ],
    ids=["pascal", "turing", "ampere", "hopper", "blackwell", "vgpu guest"],
)
def test_what_an_architecture_lacks_is_missing(
    nvml: LoadedStandin, board: boards.Answers, has: set[str], lacks: set[str]
) -> None:
    nvml.gpus = [board]
    nvml.write()
    with reading() as reader:
        reader.tick()
        found = reader.numbers()["0"].keys()
    assert has <= found
    assert not lacks & found


def test_refused_calls_are_not_repeated(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.vgpu_guest()]
    nvml.write()
    with reading() as reader:
        reader.tick()
        before = nvml.count("calls")
        reader.tick()
        assert nvml.count("calls") - before < 15


def test_a_refused_call_is_replaced_by_the_older_one(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write(nvmlDeviceGetMemoryInfo_v2_error=3)
    with reading() as reader:
        found = reader.numbers()["0"]
        assert found["memory_used_bytes"] == (40_000 + 561) * 2**20, "with what is reserved"
        nvml.write(nvmlDeviceGetMemoryInfo_error=3)
        assert not {"memory_used_bytes", "memory_bytes"} & reader.numbers()["0"].keys()


def test_a_call_that_fails_has_its_values_again_when_it_succeeds(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper()]
    with reading() as reader:
        for code, expected in ((0, 40_000 * 2**20), (10, None), (0, 40_000 * 2**20)):
            nvml.write(nvmlDeviceGetMemoryInfo_v2_error=code)
            found = reader.numbers()["0"]
            assert (found.get("memory_used_bytes"), found["sm_clock_hertz"]) == (expected, 1.98e9)


def test_a_backup_call_is_read_again_with_every_tick(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.pascal()]
    nvml.write()
    with reading() as reader:
        assert reader.numbers()["0"]["power_watts"] == 122.5
        nvml.gpus[0]["power"] = 99_000
        nvml.write()
        assert reader.numbers()["0"]["power_watts"] == 99.0
        nvml.write(nvmlDeviceGetPowerUsage_error=999)
        assert "power_watts" not in reader.numbers()["0"]


def test_slow_values_stay_until_they_are_read_again(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write()
    with reading() as reader:
        reader.tick()
        nvml.gpus[0] |= {"fi.190": 500_000, "temperature.0": 70}
        nvml.write()
        found = reader.numbers()["0"]
        assert (found["power_limit_watts"], found["temperature_celsius"]) == (700.0, 70.0)
        assert reader.numbers(10.0)["0"]["power_limit_watts"] == 500.0


def test_entries_that_come_back_untouched_are_missing(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper() | {"fi.3.untouched": 1, "fi.3.type": 0}]
    nvml.write()
    with reading() as reader:
        found = reader.numbers()["0"]
    assert "ecc_sbe_volatile_total" not in found
    assert found["ecc_dbe_volatile_total"] == 0.0


def test_mig_instances_have_identity_memory_and_activity(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.split(boards.hopper(), [(1, "1g.10gb"), (2, "1c.3g.40gb")])]
    nvml.write()
    with reading() as reader:
        reader.tick()
        tick = reader.tick()
        board, *instances = tick.devices
        assert [each.entity.mig_id for each in instances] == ["1", "2"]
        assert [each.entity.mig_profile for each in instances] == ["1g.10gb", "3g.40gb"]
        assert [each.mig_uuid[:17] for each in instances] == ["MIG-5e1f0000-0001", "MIG-5e1f0000-0002"]
        assert [each.graphics_engine_active_ratio for each in readings_of(tick)] == [None, 0.1, 0.2]
        assert tick.gpus[2].reading.memory_used_bytes == 2 * 2**30
        assert (tick.gpus[0].reading.mig_mode, board.entity.kind) == (1.0, "gpu")
        assert tick.gpus[0].reading.pcie_transmit_bytes_per_second is not None, "traffic is the board's"

        nvml.gpus = [boards.hopper()]
        nvml.write()
        assert list(reader.numbers(10.0)) == ["0"], "the instances are gone with the next list"
        assert reader.numbers()["0"]["sm_active_ratio"] == 0.883


def test_xids_are_counted_one_by_one(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper(0), boards.hopper(1) | {"events": 0}]
    nvml.write()
    with reading() as reader:
        assert extras_of(reader.tick())[0].xid_totals == ()
        nvml.gpus[0]["xids"] = " 48 63 63"
        nvml.write()
        tick = reader.tick()
        assert extras_of(tick)[0].xid_totals == ((48, 1.0), (63, 2.0))
        assert tick.gpus[0].reading.xid_last_code == 63.0
        assert tick.gpus[1].reading.xid_last_code is None, "no events, no code"
        nvml.gpus[0]["xids"] = " 48 63 63 48"
        nvml.write()
        assert extras_of(reader.tick())[0].xid_totals == ((48, 2.0), (63, 2.0))
        nvml.reload_driver()
        with pytest.raises(SourceError):
            reader.tick()
        assert extras_of(reader.tick())[0].xid_totals == ((48, 2.0), (63, 2.0))


def test_xids_have_a_bounded_number_of_series(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper(0)]
    nvml.write()
    with reading() as reader:
        for begin in range(1000, 1000 + MAX_CODES + 16, 16):  # more do not fit into a line of the stand-in
            nvml.gpus[0]["xids"] = "".join(f" {code}" for code in range(begin, begin + 16))
            nvml.write()
            tick = reader.tick()
        assert len(extras_of(tick)[0].xid_totals or ()) == MAX_CODES
        assert tick.gpus[0].reading.xid_last_code == 1000.0 + MAX_CODES + 15


@pytest.mark.parametrize(("code", "xid"), [(15, 48), (999, 63)])
def test_codes_are_missing_while_events_cannot_be_read(nvml: LoadedStandin, code: int, xid: int) -> None:
    nvml.gpus = [boards.hopper(0) | {"xids": f" {xid}"}]
    nvml.write()
    with reading() as reader:
        assert reader.numbers()["0"]["xid_last_code"] == xid
        nvml.write(nvmlEventSetWait_v2_error=code)
        assert "xid_last_code" not in reader.numbers()["0"], "an old code is not the current one"
        nvml.write(nvmlEventSetWait_v2_error=0)
        assert reader.numbers(10.0)["0"]["xid_last_code"] == xid, "with the next list of GPUs"


def test_a_lost_gpu_leaves_and_comes_back_while_the_others_go_on(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper(0), boards.hopper(1)]
    nvml.write()
    with reading() as reader:
        reader.tick()
        nvml.gpus[1]["error"] = 15
        nvml.write()
        for _ in range(12):
            assert list(reader.numbers()) == ["0"]
            assert reader.lost == {nvml.gpus[1]["uuid"]}
        del nvml.gpus[1]["error"]
        nvml.write()
        assert any("1" in reader.numbers(10.0) for _ in range(4))
        assert not reader.lost


def test_the_code_that_took_the_gpu_away_is_delivered(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper(0)]
    nvml.write()
    with reading() as reader:
        reader.tick()
        nvml.gpus[0] |= {"error": 15, "xids": " 79"}
        nvml.write()
        assert reader.numbers() == {"0": {"xid_last_code": 79.0}}
        assert reader.numbers() == {}


def test_a_gpu_that_requires_a_reset_has_that_action_and_nothing_else(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper(0), boards.hopper(1)]
    nvml.write()
    with reading() as reader:
        reader.tick()
        nvml.gpus[1]["error"] = 16
        nvml.write()
        assert reader.numbers()["1"] == {"recovery_action": 1.0}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (9, DriverUnavailable),
        (18, DriverMismatch),
        (4, NvmlRefused),
        (15, GpuLost),
        (16, GpuLost),
        (12, NvmlMissing),
        (999, NvmlError),
    ],
)
def test_errors_of_the_initialization_have_a_reason_and_a_remedy(
    nvml: LoadedStandin, code: int, error: type[SourceError]
) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write(nvmlInitWithFlags_error=code)
    with reading() as reader:
        with pytest.raises(error) as raised:
            reader.tick()
        assert raised.value.remedy
        nvml.write(nvmlInitWithFlags_error=0)
        assert reader.numbers()["0"]["temperature_celsius"] == 44.0


def test_gpus_that_refuse_access_are_left_out(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper(0) | {"nvmlDeviceGetHandleByIndex_v2.error": 4}, boards.hopper(1)]
    nvml.write()
    with reading() as reader:
        assert list(reader.numbers()) == ["1"]
    nvml.gpus[1]["nvmlDeviceGetHandleByIndex_v2.error"] = 4
    nvml.write()
    with reading() as reader, pytest.raises(NvmlRefused):
        reader.tick()


def test_too_many_gpus(nvml: LoadedStandin) -> None:
    nvml.gpus = list(EIGHT_H100)
    nvml.write()
    with reading(NvmlSettings(max_gpus=7)) as reader, pytest.raises(TooManyGpus):
        reader.tick()


def test_a_machine_without_gpus_is_an_empty_tick(nvml: LoadedStandin) -> None:
    with reading() as reader:
        assert reader.numbers() == {}


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_error_of_every_call_costs_values_and_nothing_else(nvml: LoadedStandin, function: str) -> None:
    """A number that is there is the right one: nothing stale, and no 0 for what is missing.

    All errors of each call only in `make nightly`, otherwise a tenth, each error with another tenth of the calls.
    """
    nvml.gpus = [boards.hopper(0), boards.split(boards.hopper(1), [(1, "1g.10gb")])]
    nvml.write()
    cases = list(itertools.product((False, True), KINDS_OF_CODES))
    for is_late, code in cases[FUNCTIONS.index(function) % SHARE :: SHARE]:
        nvml.gpus[0] |= {"temperature.0": 44, "power": 1000, "fi.185": 640_250, "fi.83": 5000, "memory.used": 2**30}
        nvml.gpus[0] |= {"processes": "41:5:", "processes.busy": "41:9", "accounting": 1, "accounting.41": "1:1"}
        nvml.write(**{f"{function}.error": 0})
        with reading() as reader:
            if is_late:
                reader.tick()
                good = reader.numbers()
            nvml.gpus[0] |= {"temperature.0": 45, "fi.185": 1000, "fi.83": 6000, "memory.used": 2**31}
            nvml.gpus[0] |= {"processes": "42:6:", "processes.busy": "42:37", "accounting": 1, "accounting.42": "61:7"}
            nvml.write(**{f"{function}.error": code})
            for _ in range(2):
                found: dict[str, dict[str, float]] = {}
                with contextlib.suppress(SourceError):
                    found = reader.numbers(61.0 if is_late else 1.0)
                expected = {
                    "temperature_celsius": 45.0,
                    "power_watts": 1.0,
                    "energy_joules_total": 6.0,
                    # The older call counts what is reserved as used.
                    "memory_used_bytes": 2.0**31 + (561 * 2.0**20 if function == "nvmlDeviceGetMemoryInfo_v2" else 0.0),
                }
                for process in reader.processes or ():
                    assert process[:5] == (42, "0", boards.uuid_of(0), "", 6)
                    assert all(was in (None, is_) for was, is_ in zip(process[5:], (0.37, 0.61, 7), strict=True))
                for name, value in expected.items():
                    assert found.get("0", {}).get(name) in (None, value), (function, code, name)
            nvml.write(**{f"{function}.error": 0})
            if is_late and code not in (15, 16, 28):
                assert _numbers_again(reader).keys() == good.keys(), (function, code)


def _numbers_again(reader: Reader) -> dict[str, dict[str, float]]:
    """Return what it has after the next list: one tick may fail before, and one has no profiling counters."""
    for seconds in (1.0, 10.0):
        with contextlib.suppress(SourceError):
            reader.tick(seconds)
    return reader.numbers()


def test_every_error_of_every_field_costs_that_quantity_only(nvml: LoadedStandin) -> None:
    for code in CODES:
        nvml.gpus = [boards.hopper() | {"fi.190.error": code, "gpm.2.error": code}]
        nvml.write()
        with reading() as reader:
            try:
                reader.tick()
                found = reader.numbers()
            except SourceError:
                assert code in (9, 18)
                continue
        if code in (15, 16, 28):
            assert "temperature_celsius" not in found.get("0", {})
        else:
            assert "sm_active_ratio" not in found["0"]
            assert found["0"]["power_limit_max_watts"] == 700.0


def test_driver_reloads_leak_nothing(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.split(boards.hopper(), [(1, "1g.10gb")]) | {"processes": "41:5:1"}]
    nvml.write()
    with reading() as reader:
        for _ in range(10):
            reader.tick()
            held = nvml.held()
            nvml.reload_driver()
            with pytest.raises(SourceError):
                reader.tick()
            assert reader.numbers()["0"]["temperature_celsius"] == 44.0
            assert nvml.held() == held
    assert nvml.held() == NOTHING_HELD


def test_counters_in_use_by_another_process_are_named_and_come_back(
    nvml: LoadedStandin, caplog: pytest.LogCaptureFixture
) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write()
    with reading() as reader:
        reader.tick()
        assert reader.session.profiling_errors == {}
        for function in ("nvmlGpmSampleGet", "nvmlGpmMetricsGet"):
            nvml.write(**{f"{function}.error": 19})
            for _ in range(2):
                assert "sm_active_ratio" not in reader.numbers()["0"]
                assert "in use by another process" in reader.session.profiling_errors["profiling_held"]
            nvml.write(**{f"{function}.error": 0})
            reader.tick()
            assert reader.numbers()["0"]["sm_active_ratio"] == 0.883
            assert reader.session.profiling_errors == {}
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2, "once each"


def test_counters_that_the_driver_refuses_are_named(nvml: LoadedStandin) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write(nvmlGpmSampleGet_error=4)
    with reading() as reader:
        reader.tick()
        reader.tick()
        assert "CAP_PERFMON" in reader.session.profiling_errors["not_permitted"]


def test_the_driver_is_released_while_a_file_exists(nvml: LoadedStandin, tmp_path: Path) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write()
    file = tmp_path / "release"
    with reading(NvmlSettings(release_file=str(file))) as reader:
        reader.tick()
        assert nvml.held() != NOTHING_HELD
        file.touch()
        for _ in range(2):
            with pytest.raises(DriverReleased, match="exists"):
                reader.tick()
            assert nvml.held() == NOTHING_HELD
        file.unlink()
        assert reader.numbers()["0"]["temperature_celsius"] == 44.0


def test_at_10_hz_the_driver_is_released_within_a_second(nvml: LoadedStandin, tmp_path: Path) -> None:
    nvml.gpus = [boards.hopper()]
    nvml.write()
    file = tmp_path / "release"
    with reading(NvmlSettings(interval=0.1, release_file=str(file))) as reader:
        reader.tick()
        file.touch()
        with pytest.raises(DriverReleased, match="exists"):
            deque((reader.tick() for _ in range(10)), maxlen=0)
        assert nvml.held() == NOTHING_HELD
