"""Which series are about which device, in both dialects."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, pod
from pulsed.reader.exposition.parser import PageParser
from pulsed.translate.translator import Translator
from tests.support.ticks import owners_of, readings_of
from tests.translate.build import Row, by_key, dmon_ticks, page_tick, present, raw_tick, tick

A = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
B = "GPU-bbbbbbbb-0000-0000-0000-000000000000"
MIG = "MIG-cccccccc-0000-0000-0000-000000000000"


def devices(*rows: Row) -> tuple[Device, ...]:
    return Translator("here").translate(tick(rows)).devices


def temperature(**labels: str) -> Row:
    return "DCGM_FI_DEV_GPU_TEMP", labels, 40.0


L4 = {"gpu": "1", "UUID": A, "modelName": "NVIDIA L4", "device": "nvidia1", "pci_bus_id": "0000:3b:00.0"}


def gpu(uuid: str = A, node: str = "here") -> Device:
    return Device(Entity("gpu", "0", uuid, node=node))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        *(({"gpu": "0", label: A}, gpu()) for label in ("UUID", "uuid")),
        *(
            ({"gpu": "0", "UUID": A, label: "n1"}, gpu(node="n1"))
            for label in ("Hostname", "hostname", "exported_hostname", "exported_Hostname", "node", "instance")
        ),
        (
            {"gpu": "0", "UUID": A, "instance": "10.0.0.1:9400", "node": "k8s-1", "hostname": "n1"},
            gpu(node="n1"),  # before the labels of Prometheus
        ),
        *(
            case
            for host in ("localhost", "localhost:9400", "127.0.0.1", "[::1]:9400")
            for case in (
                ({"gpu": "0", "UUID": A, "Hostname": host}, gpu()),
                ({"gpu": "0", "UUID": A, "Hostname": host, "instance": "gpu-7:9400"}, gpu(node="gpu-7:9400")),
            )
        ),
        *(
            (
                {**L4, label: "580.65"},
                Device(
                    Entity("gpu", "1", A, node="here"),
                    model="NVIDIA L4",
                    pci_bus_id="00000000:3B:00.0",
                    driver_version="580.65",
                    device="nvidia1",
                ),
            )
            for label in ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
        ),
        *(
            (
                {"gpu": "0", **dict.fromkeys(("UUID", "Hostname", "GPU_I_ID", "pod", "DCGM_FI_DRIVER_VERSION"), blank)},
                gpu(uuid=""),
            )
            for blank in ("", "<<<NULL>>>", "<<<NOT_SUPPORTED>>>", "SKIPPING DCGM VALUE")
        ),
        # dcgm-exporter copies a pod's labels with DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS; a missing GPU would
        # count as lost.
        *(({"gpu": "0", "UUID": A, label: "high"}, gpu()) for label in ("cpu", "cpucore", "nvlink", "nvswitch")),
        ({"gpu": "0", "UUID": A, "gpu_uuid": "high"}, gpu()),
    ],
)
def test_labels_of_one_row_identify_a_device(labels: Mapping[str, str], expected: Device) -> None:
    assert devices(temperature(**labels)) == (expected,)


def test_rows_with_one_uuid_are_one_device_however_else_they_differ() -> None:
    canonical = Translator().translate(
        tick(
            [
                temperature(gpu="0", UUID=A, pod="a", namespace="ml", vgpu="0"),
                temperature(gpu="0", UUID=A, pod="b", namespace="ml", vgpu="1"),
                ("DCGM_FI_DEV_XID_ERRORS", {"gpu": "0", "UUID": A, "err_code": "31", "err_msg": "x"}, 31.0),
                ("DCGM_FI_DEV_FB_USED", {"gpu": "0", "UUID": A, "hpc_job": "7"}, 1.0),
            ]
        )
    )
    (row,) = canonical.gpus
    assert row.owners == (Owner("slurm_job", "7"), pod("ml", "a"), pod("ml", "b"))
    assert present(canonical.gpus[0].reading) == {
        "temperature_celsius": 40.0,
        "xid_last_code": 31.0,
        "memory_used_bytes": 2**20,
    }


def test_without_uuid_the_index_identifies_a_device() -> None:
    found = devices(temperature(gpu="1"), temperature(gpu="0"), temperature(gpu="1", pod="a"))
    assert [device.entity.gpu for device in found] == ["0", "1"]


def test_one_index_on_two_nodes_is_two_devices() -> None:
    found = devices(temperature(gpu="0", hostname="n2"), temperature(gpu="0", hostname="n1"))
    assert [device.entity.node for device in found] == ["n1", "n2"]


def test_order_is_node_then_index_then_instance() -> None:
    found = devices(
        temperature(gpu="10", UUID=A),
        ("DCGM_FI_DEV_FB_USED", {"gpu": "2", "UUID": B, "GPU_I_ID": "13"}, 1.0),
        ("DCGM_FI_DEV_FB_USED", {"gpu": "2", "UUID": B, "GPU_I_ID": "3"}, 1.0),
        temperature(gpu="2", UUID=B),
    )
    assert [(device.entity.gpu, device.entity.mig_id) for device in found] == [
        ("2", ""),
        ("2", "3"),
        ("2", "13"),
        ("10", ""),
    ]


def test_links_switches_and_processors_are_not_gpus() -> None:
    name = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
    canonical = Translator().translate(
        tick(
            [
                (name, {"gpu": "0", "UUID": A}, 100.0),
                (name, {"nvlink": "0", "gpu": "0", "gpu_uuid": A, "model_name": "x"}, 999.0),
                (name, {"gpu": "0", "gpu_uuid": A, "model_name": "x"}, 999.0),
                (name, {"nvlink": "1", "nvswitch": "nvswitch0"}, 999.0),
                ("DCGM_FI_DEV_GPU_TEMP", {"nvswitch": "nvswitch0"}, 60.0),
                ("DCGM_FI_DEV_GPU_TEMP", {"cpucore": "0", "cpu": "0"}, 60.0),
                ("go_goroutines", {}, 7.0),
            ]
        )
    )
    assert [device.entity.uuid for device in canonical.devices] == [A]
    assert present(canonical.gpus[0].reading) == {"nvlink_bandwidth_bytes_per_second": 1e8}


@pytest.mark.parametrize(
    ("model", "guest"),
    [
        ("GRID A100-8C", True),
        ("NVIDIA H100-20C", True),
        ("NVIDIA A40-48Q", True),
        ("GRID M60-0B4", True),
        ("NVIDIA A100-1-5CME", True),
        ("GRID T4-16A", True),
        ("NVIDIA A100-SXM4-40GB", False),
        ("NVIDIA A100 80GB PCIe", False),
        ("NVIDIA H100 80GB HBM3", False),
        ("Tesla T4", False),
        ("Tesla V100-PCIE-16GB", False),
        ("NVIDIA GH200 480GB", False),
        ("NVIDIA A800-SXM4-80GB", False),
        ("NVIDIA RTX 4000 Ada Generation", False),
    ],
)
def test_vgpu_guests_by_model_also_of_boards_that_show_a_licence(model: str, guest: bool) -> None:
    labels = {"gpu": "0", "UUID": A, "modelName": model}
    (device,) = devices(("DCGM_FI_DEV_VGPU_LICENSE_STATUS", labels, 0.0))
    assert (device.guest, device.whole) == (guest, not guest)


def test_guests_without_model_are_those_without_values_of_boards() -> None:
    licence: Row = ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", {"gpu": "0", "UUID": A}, 1.0)
    (guest,) = devices(licence, ("DCGM_FI_DEV_GPU_UTIL", {"gpu": "0", "UUID": A}, 5.0))
    (board,) = devices(licence, ("DCGM_FI_DEV_POWER_USAGE", {"gpu": "0", "UUID": A}, 55.0))
    assert (guest.guest, board.guest) == (True, False)


def test_a_mig_instance_has_its_boards_uuid_and_its_own_profile_and_pods() -> None:
    board = {"gpu": "0", "UUID": A, "modelName": "NVIDIA A30", "Hostname": "n1"}
    first = {**board, "GPU_I_PROFILE": "1g.6gb+me", "GPU_I_ID": "3", "dra_mig_device_uuid": MIG, "pod": "a"}
    second = {**board, "GPU_I_PROFILE": "1g.6gb", "GPU_I_ID": "5", "pod": "b"}
    rows = [("DCGM_FI_DEV_FB_USED", first, 1.0), ("DCGM_FI_DEV_FB_USED", second, 1.0), temperature(**second)]
    translated = Translator("here").translate(tick(rows))
    whole, one, two = translated.devices
    assert one.entity == Entity("mig", "0", A, "3", "1g.6gb+me", "n1")
    assert (one.mig_uuid, one.model) == (MIG, "NVIDIA A30")
    assert two.entity == Entity("mig", "0", A, "5", "1g.6gb", "n1")
    assert whole.entity == Entity("gpu", "0", A, node="n1")
    assert (whole.mig_uuid, whole.model) == ("", "NVIDIA A30")
    assert owners_of(translated) == [(pod("", "a"), pod("", "b")), (pod("", "a"),), (pod("", "b"),)]


PAGE = """\
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",DCGM_FI_DRIVER_VERSION="535.1",pod="%s"} 40
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",DCGM_FI_DRIVER_VERSION="535.1",pod="%s"} 10
"""


def test_texts_and_owners_that_left_the_page_are_dropped() -> None:
    # The parser's layout keeps the series of a pod that is gone; the GPU is not its any more.
    parser, translator = PageParser(), Translator()
    names = []
    for name in ("a", "b", "b", "a"):
        (row,) = translator.translate(page_tick(PAGE % (name, name), parser)).gpus
        names.append([owner.name for owner in row.owners or ()])
    assert names == [["a"], ["b"], ["b"], ["a"]]
    freed = PAGE.replace(',pod="%s"', "").replace("535.1", "580.2")
    (row,) = translator.translate(page_tick(freed, parser)).gpus
    assert (row.device.driver_version, row.owners) == ("580.2", None)


def test_one_missing_value_changes_no_device() -> None:
    parser, translator = PageParser(), Translator()
    page = PAGE % ("a", "a")
    first = translator.translate(page_tick(page, parser)).devices
    second = translator.translate(page_tick(page.splitlines()[1] + "\n", parser)).devices
    third = translator.translate(page_tick(page, parser)).devices
    assert first == second
    assert second == third


# --- dmon


def test_dmon_entities() -> None:
    (canonical,) = map(
        Translator("here").translate,
        dmon_ticks(
            "#Entity         GRACT        POWER             \n"
            "ID                                           W \n"
            "GPU 10          0.500        300.000           \n"
            "GPU 9           0.250        200.000           \n"
            "GPU-I 70        0.750        300.000           \n"
            "GPU-CI 71       0.700        300.000           \n"
            "Switch 3        N/A          17.000            \n"
            "CPU 0           N/A          18.000            \n"
        ),
    )
    assert [device.entity for device in canonical.devices] == [
        Entity("gpu", "9", node="here"),
        Entity("gpu", "10", node="here"),
        Entity("mig", "", mig_id="70", node="here"),
    ]
    assert [present(reading) for reading in readings_of(canonical)] == [
        {"graphics_engine_active_ratio": 0.25, "power_watts": 200.0},
        {"graphics_engine_active_ratio": 0.5, "power_watts": 300.0},
        # Which board repeats its power here is not known, and a board's power is not the instance's.
        {"graphics_engine_active_ratio": 0.75},
    ]


def dmon(*rows: tuple[str, str, dict[str, float | str | None]]) -> list[Row]:
    return [
        (name, {"entity": entity, "id": id_}, value) for entity, id_, cells in rows for name, value in cells.items()
    ]


def test_dmons_only_gpu_is_the_board_of_its_instances() -> None:
    canonical = Translator().translate(
        tick(
            dmon(
                ("GPU", "0", {"UUID#": A, "DVNAM": "NVIDIA A100", "GRACT": 0.5, "POWER": None}),
                ("GPU-I", "1", {"UUID#": MIG, "DVNAM": "NVIDIA A100", "GRACT": 0.9, "POWER": 300.5}),
                ("GPU-I", "2", {"UUID#": None, "DVNAM": None, "GRACT": 0.1, "POWER": 300.0}),
            ),
            "dmon",
        )
    )
    board, one, two = canonical.devices
    assert (one.entity, one.mig_uuid) == (Entity("mig", "0", A, "1"), MIG)
    assert (two.entity, two.mig_uuid, two.model) == (Entity("mig", "0", A, "2"), "", "NVIDIA A100")
    assert board.entity == Entity("gpu", "0", A)
    assert [reading.power_watts for reading in readings_of(canonical)] == [300.5, None, None]
    assert [reading.graphics_engine_active_ratio for reading in readings_of(canonical)] == [0.5, 0.9, 0.1]


def test_compute_instances_stand_in_where_dmon_shows_no_gpu_instances() -> None:
    rows = dmon(("GPU", "0", {"GRACT": 0.5}), ("GPU-CI", "4", {"GRACT": 0.7}))
    found = by_key(Translator().translate(tick(rows, "dmon")))
    assert found["0", "4"][1].graphics_engine_active_ratio == 0.7
    assert found["0", "4"][0].entity.kind == "mig"


def test_a_vgpu_as_its_host_sees_it() -> None:
    rows = dmon(
        ("GPU", "0", {"VMUSG": 0.0, "POWER": 60.0, "VLCST": None}),
        ("vGPU", "7", {"VMUSG": 4096.0, "POWER": 60.0, "VLCST": 1.0}),
    )
    board, vgpu = readings_of(Translator().translate(tick(rows, "dmon")))
    assert present(board) == {"vgpu_memory_used_bytes": 0.0, "power_watts": 60.0}
    assert present(vgpu) == {"vgpu_memory_used_bytes": 2.0**32, "vgpu_license_status": 1.0}


def test_dmons_texts_name_the_device() -> None:
    cells: dict[str, float | str | None] = {
        "UUID#": A,
        "DVNAM": "NVIDIA H100 80GB HBM3",
        "PCBID": "00000000:1B:00.0",
        "DRVER": "535.129.03",
        "POWER": 70.0,
    }
    (device,) = Translator("here").translate(tick(dmon(("GPU", "0", cells)), "dmon")).devices
    assert device == Device(
        Entity("gpu", "0", A, node="here"), "NVIDIA H100 80GB HBM3", "00000000:1B:00.0", "535.129.03"
    )


def test_dmons_texts_may_change_and_one_blank_changes_nothing() -> None:
    translator = Translator()
    first = tick(dmon(("GPU", "0", {"UUID#": A, "POWER": 70.0})), "dmon")
    one = translator.translate(first).devices
    blank = translator.translate(raw_tick(first.layout, [None, 71.0])).devices
    cut = translator.translate(raw_tick(first.layout, ["GPU-aaaa...", 71.0])).devices
    other = translator.translate(raw_tick(first.layout, [B, 72.0])).devices
    assert one == blank
    assert one == cut
    assert [device.entity.uuid for device in (*one, *other)] == [A, B]


def test_a_row_of_dmon_without_values_is_a_gpu() -> None:
    rows = dmon(("GPU", "0", {"UUID#": A, "POWER": None}), ("GPU", "1", {"UUID#": None, "POWER": None}))
    named, nameless = Translator().translate(tick(rows, "dmon")).devices
    assert (named.entity.uuid, nameless.entity.uuid) == (A, "")


def live(entity: str, id_: str, column: str, value: float, **facts: str) -> tuple[str, Mapping[str, str], float]:
    """A series as the live source labels it."""
    return column, {"entity": entity, "id": id_, **facts}, value


def test_labels_of_a_live_source_identify_gpus() -> None:
    board = {"uuid": A, "model": "NVIDIA A100-SXM4-40GB", "pci_bus_id": "00000000:07:00.0"}
    other = {"uuid": B, "model": "NVIDIA A100-SXM4-40GB", "pci_bus_id": "00000000:0F:00.0"}
    canonical = Translator("host").translate(
        tick(
            [
                live("GPU", "0", "POWER", 80.0, **board),
                live("GPU", "1", "POWER", 90.0, **other),
                live("GPU-I", "7", "GRACT", 0.5, gpu="1", instance_id="3", **other),
                live("GPU-I", "7", "POWER", 91.0, gpu="1", instance_id="3", **other),
            ],
            "dmon",
        )
    )
    whole, split, instance = canonical.devices
    assert (whole.entity.gpu, whole.entity.uuid, whole.model) == ("0", A, "NVIDIA A100-SXM4-40GB")
    assert (split.entity.uuid, split.pci_bus_id) == (B, "00000000:0F:00.0")
    assert (instance.entity.gpu, instance.entity.uuid, instance.entity.mig_id) == ("1", B, "3")
    assert instance.mig_uuid == ""
    assert [reading.power_watts for reading in readings_of(canonical)] == [80.0, 90.0, None]
    assert canonical.gpus[2].reading.graphics_engine_active_ratio == 0.5


def test_a_live_instance_whose_board_has_no_row_still_has_a_board() -> None:
    row = live("GPU-I", "7", "POWER", 91.0, gpu="1", instance_id="3", uuid=B, model="NVIDIA A30")
    board, instance = Translator("host").translate(tick([row], "dmon")).devices
    assert (board.entity.kind, board.entity.gpu, board.entity.uuid, board.model) == ("gpu", "1", B, "NVIDIA A30")
    assert instance.entity.mig_id == "3"


@pytest.mark.parametrize(
    ("labels", "fabric", "platform"),
    [
        ("", "", ()),
        (',DCGM_FI_DEV_FABRIC_CLUSTER_UUID="00000000-0000-0000-0000-000000000000"', "", ()),
        (',DCGM_FI_DEV_FABRIC_CLUSTER_UUID="5f-7",DCGM_FI_DEV_FABRIC_CLIQUE_ID="32766"', "5f-7/32766", ()),
        (
            ',DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER="1821",DCGM_FI_DEV_PLATFORM_TRAY_INDEX="13"',
            "",
            ("1821", "", "13", "", ""),
        ),
    ],
)
def test_fabric_and_platform_are_labels(labels: str, fabric: str, platform: tuple[str, ...]) -> None:
    page = f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-0",Hostname="n"{labels}}} 40\n'
    (device,) = Translator("n").translate(page_tick(page)).devices
    assert (device.fabric, device.platform) == (fabric, platform)
