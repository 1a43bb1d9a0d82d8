"""Other people's pages and captures: what they say must come out as they say it."""

from __future__ import annotations

import pytest

from pulsed.model.gpu import Entity
from pulsed.model.owner import pod
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import NOTHING, Reading
from pulsed.translate.translator import Translator
from tests.support.samples import SAMPLES, needs_samples
from tests.support.ticks import anomalies_of, readings_of
from tests.translate.build import by_key, dmon_ticks, page_tick, present

pytestmark = needs_samples

MIB = 2.0**20
PAGES = sorted(path.name for path in SAMPLES.glob("exporter/*.prom"))
CAPTURES = sorted(path.name for path in SAMPLES.glob("dmon/*.txt"))


def page(name: str) -> Tick:
    return Translator().translate(page_tick((SAMPLES / "exporter" / f"{name}.prom").read_text()))


def capture(name: str) -> list[Tick]:
    translator = Translator("here")
    return [translator.translate(raw) for raw in dmon_ticks((SAMPLES / "dmon" / f"{name}.txt").read_text())]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_gives_devices_in_order_and_sane_values(name: str) -> None:
    canonical = page(name.removesuffix(".prom"))
    assert canonical.devices
    keys = [(device.entity.node, int(device.entity.gpu), device.entity.mig_id) for device in canonical.devices]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    assert anomalies_of(canonical) == {}
    for reading in readings_of(canonical):
        for quantity, value in present(reading).items():
            assert value >= 0, quantity
            assert value <= 1 or not quantity.endswith("_ratio"), quantity


@pytest.mark.parametrize("name", CAPTURES)
def test_every_capture_translates(name: str) -> None:
    for canonical in capture(name.removesuffix(".txt")):
        assert len(canonical.devices) == len(readings_of(canonical))


def test_a_busy_t4_that_does_little() -> None:
    canonical = page("exporter-4x-t4-whole-page")
    (device,), (reading,) = canonical.devices, readings_of(canonical)
    assert device.entity == Entity("gpu", "0", "GPU-6d5c0ac5-74d7-3130-46f1-e93ed57f469a", node="cp-bm14r7")
    assert (device.model, device.driver_version, device.pci_bus_id, device.device) == (
        "Tesla T4",
        "590.48.01",
        "00000000:37:00.0",
        "nvidia0",
    )
    assert not device.guest
    assert present(reading) == {
        "graphics_engine_active_ratio": 0.156205,
        "tensor_active_ratio": 0.005822,
        "dram_active_ratio": 0.092781,
        "gpu_utilization_ratio": 0.91,
        "memory_utilization_ratio": 0.73,
        "encoder_utilization_ratio": 0.0,
        "decoder_utilization_ratio": 0.0,
        "pcie_transmit_bytes_per_second": 4791810.0,
        "pcie_receive_bytes_per_second": 6935930.0,
        "memory_bytes": 15358 * MIB,
        "memory_used_bytes": 5120 * MIB,
        "memory_free_bytes": 9791 * MIB,
        "memory_reserved_bytes": 447 * MIB,
        "memory_used_ratio": 5120 / 15358,
        "power_watts": 68.244,
        "energy_joules_total": 15152422.938,
        "temperature_celsius": 74.0,
        "sm_clock_hertz": 660e6,
        "memory_clock_hertz": 5e9,
        "pcie_replays_total": 0.0,
        "vgpu_license_status": 0.0,
    }


def test_two_t4_of_which_one_has_a_pod() -> None:
    canonical = page("exporter-3x-t4-2gpu-pod-runai")
    used, free = canonical.devices
    reservation = "runai-reservation"
    assert canonical.gpus[0].owners == (
        pod(reservation, "runai-reservation-gpu-qa-mig-worker-gpu-1-kvltw", reservation),
    )
    assert canonical.gpus[1].owners is None
    assert used.entity.node == free.entity.node == "nvidia-dcgm-exporter-s228n"
    one, two = readings_of(canonical)
    assert (one.sm_clock_hertz, two.sm_clock_hertz) == (585e6, 300e6)
    assert (one.power_watts, two.power_watts) == (28.722, 17.035)
    assert (one.memory_bytes, two.memory_bytes) == ((14831 + 128) * MIB, (14955 + 5) * MIB)
    assert (one.graphics_engine_active_ratio, one.nvlink_bandwidth_bytes_per_second) == (0.000039, 0.0)


def test_eight_a800_of_which_one_is_split() -> None:
    canonical = page("exporter-3x-a800-8gpu-mixed-mig")
    found = by_key(canonical)
    assert list(found) == [("0", ""), ("0", "3"), ("0", "5"), ("0", "6"), *((str(gpu), "") for gpu in range(1, 8))]
    board, split = found["0", ""]
    assert (split.power_watts, split.energy_joules_total, split.memory_temperature_celsius) == (
        78.446,
        257858.316,
        29.0,
    )
    assert (split.graphics_engine_active_ratio, split.memory_used_bytes, split.xid_last_code) == (None, None, 0.0)
    instance, own = found["0", "5"]
    assert instance.entity == Entity(
        "mig", "0", "GPU-1f027ee8-6e1e-2b8c-0108-3d370e5f0418", "5", "2g.20gb", "msxf-hpc-64-35-ai"
    )
    assert instance.model == board.model == "NVIDIA A800-SXM4-80GB"
    assert present(own) == {
        "graphics_engine_active_ratio": 0.0,
        "tensor_active_ratio": 0.0,
        "dram_active_ratio": 0.0,
        "memory_bytes": 19967 * MIB,
        "memory_used_bytes": 10 * MIB,
        "memory_free_bytes": 19957 * MIB,
        "memory_used_ratio": 10 / 19967,
    }
    powers = [reading.power_watts for reading in readings_of(canonical) if reading.power_watts is not None]
    assert sum(powers) == pytest.approx(78.446 + 55.942 + 53.752 + 56.990 + 58.643 + 54.581 + 57.145 + 55.011)
    assert found["1", ""][1].pcie_receive_bytes_per_second == 211846.0


def test_an_a100_with_three_instances() -> None:
    found = by_key(page("exporter-3x-a100-mig-3inst-active"))
    assert list(found) == [("0", ""), ("0", "5"), ("0", "7"), ("0", "9")]
    assert found["0", "5"][0].entity.mig_profile == "2g.10gb"
    busy = found["0", "9"][1]
    assert (busy.graphics_engine_active_ratio, busy.dram_active_ratio, busy.memory_used_bytes) == (
        0.999917,
        0.647986,
        4384 * MIB,
    )
    assert found["0", ""][1].power_watts == 116.163


@pytest.mark.parametrize(
    ("name", "power", "graphics"),
    [("enabled-empty", 75.96, 0.000033), ("disabled-idle", 45.999, 0.0)],
)
def test_an_a100_without_instances(name: str, power: float, graphics: float) -> None:
    canonical = page(f"exporter-3x-a100-mig-{name}")
    (device,), (reading,) = canonical.devices, readings_of(canonical)
    assert device.whole
    assert (reading.power_watts, reading.graphics_engine_active_ratio) == (power, graphics)


def test_a_page_with_whole_gpu_and_instance_rows() -> None:
    found = by_key(page("exporter-2x-a100-mig-loaded-noheaders"))
    whole, instance = found["0", ""][1], found["0", "13"][1]
    assert (whole.graphics_engine_active_ratio, whole.power_watts, whole.memory_temperature_celsius) == (
        0.99563,
        409.692,
        69.0,
    )
    assert present(instance) == {
        "graphics_engine_active_ratio": 0.995687,
        "tensor_active_ratio": 0.930433,
        "dram_active_ratio": 0.800339,
    }


@pytest.mark.parametrize(
    ("name", "model", "free", "reserved", "licence"),
    [
        ("exporter-3x-vgpu-grid-a100-8c", "GRID A100-8C", 7531, None, 0.0),
        ("exporter-4x-vgpu-h100-20c-pod", "NVIDIA H100-20C", 19762, 717, 1.0),
        ("exporter-4x-vgpu-grid-a100-40c", "GRID A100-40C", 37739, 3220, 1.0),
    ],
)
def test_vgpu_guests(name: str, model: str, free: int, reserved: int | None, licence: float) -> None:
    canonical = page(name)
    (device,), (reading,) = canonical.devices, readings_of(canonical)
    assert (device.model, device.guest, device.whole) == (model, True, False)
    assert reading.memory_bytes == (free + (reserved or 0)) * MIB
    assert reading.vgpu_license_status == licence
    assert (reading.memory_temperature_celsius, reading.power_watts) == (None, None)


def test_names_of_1x() -> None:
    canonical = page("exporter-2x-1xcompat-names-partial")
    (reading,) = readings_of(canonical)
    assert present(reading) == {
        "sm_clock_hertz": 585e6,
        "memory_clock_hertz": 5e9,
        "temperature_celsius": 54.0,
        "power_watts": 30.982,
        "energy_joules_total": 55491669.881,
        "pcie_replays_total": 0.0,
        "gpu_utilization_ratio": 0.0,
    }


def test_lower_case_hostname_and_parents_that_only_instances_speak_for() -> None:
    canonical = page("exporter-4.8.4-hostname-sorted-mixed-mig-partial")
    found = by_key(canonical)
    assert {device.entity.node for device, _ in found.values()} == {"dcgm-exporter-wwwjh"}
    assert found["0", ""][1] == Reading(temperature_celsius=50.0)
    assert found["0", "6"][1].memory_used_bytes == 3744 * MIB
    (part,) = [row for row in canonical.gpus if row.device is found["2", "3"][0]]
    assert part.owners == (pod("default", "triton-server-f7cb5d77-95xcf", "triton-server"),)
    assert found["1", ""][1].decoder_utilization_ratio == 0.46


def test_an_empty_pod_uid_beside_a_pod() -> None:
    canonical = page("exporter-4x-h100-8gpu-pod-partial")
    assert [reading.power_watts for reading in readings_of(canonical)][5:] == [67.664, 112.67, 65.061]
    assert canonical.gpus[6].owners == (pod("nim-workload", "llama-3-2-1b-7577f87fc7-dhb97", "llama-3-2-1b-ctr"),)


def test_dmon_with_mig_rows() -> None:
    first, *_, last = capture("dmon-2x-a100-mig-group8")
    assert [(device.entity.gpu, device.entity.mig_id) for device in first.devices] == [
        ("0", ""),
        ("0", "0"),
        ("0", "1"),
    ]
    assert [reading.graphics_engine_active_ratio for reading in readings_of(last)] == [0.845, 0.986, 0.985]
    assert last.devices == first.devices


def test_dmon_with_instances_of_boards_unknown() -> None:
    (canonical,) = capture("dmon-33-mig-gpui-group35")
    assert [device.entity.mig_id for device in canonical.devices] == ["21", "22", "28", "29", "30", "31", "35"]
    assert {device.entity.gpu for device in canonical.devices} == {""}
    assert canonical.gpus[2].reading.sm_active_ratio == 0.987


def test_dmon_of_descending_rows_comes_in_order() -> None:
    (canonical,) = capture("dmon-3x-rtx6000ada-descending")
    assert [device.entity.gpu for device in canonical.devices] == ["0", "1", "2"]
    assert [reading.dram_active_ratio for reading in readings_of(canonical)] == [0.881, 0.869, 0.252]


def test_dmon_without_a_value_has_gpus_of_which_nothing_is_known() -> None:
    for canonical in capture("dmon-423-x8-smact-all-na"):
        assert [device.entity.gpu for device in canonical.devices] == list("01234567")
        assert set(readings_of(canonical)) == {NOTHING}


def test_dmon_of_a_gaming_card() -> None:
    (reading,) = readings_of(capture("dmon-335-rtx2080ti-dev")[0])
    assert present(reading) == {
        "gpu_utilization_ratio": 0.0,
        "memory_utilization_ratio": 0.0,
        "power_watts": 20.891,
        "temperature_celsius": 22.0,
        "ecc_sbe_volatile_total": 0.0,
        "ecc_dbe_volatile_total": 0.0,
        "memory_used_bytes": 0.0,
    }
