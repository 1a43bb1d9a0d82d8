"""The rows that jobstats' own exporter has, from pulsed's readings and owners."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsed.model.clocks import Monotonic
from pulsed.model.owner import Owner, Owners, pod
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import Reading
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from tests.present.boards import Gpu, gpu, mig, store_of, target, tick
from tests.present.exposition.pages import NOW, families_of

ANN = Owner("slurm_job", "4711", user="ann", user_id="1001")
READ = Reading(gpu_utilization_ratio=0.58, memory_used_bytes=40e9, memory_bytes=80e9, graphics_engine_active_ratio=0.57)


def owned(each: Gpu, *owners: Owner) -> Gpu:
    return each._replace(owners=owners)


def read(number: int) -> Gpu:
    return gpu(number)._replace(reading=READ)


def page_of(made: TargetStore, settings: PageSettings | None = None, *, openmetrics: bool = False) -> str:
    pages = Pages(made, Telemetry(made), settings or PageSettings())
    page = pages.page(Monotonic(NOW), openmetrics=openmetrics, gzip=False).decode()
    families_of(page, openmetrics)
    return page


def rows(*gpus: Gpu, openmetrics: bool = False) -> list[str]:
    page = page_of(store_of(target("a", tick(gpus))), PageSettings(compat=["jobstats"]), openmetrics=openmetrics)
    return [line for line in page.splitlines() if line.startswith("nvidia_gpu_")]


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_gpu_of_a_job(openmetrics: bool) -> None:
    labels = (
        'ordinal="3",minor_number="3",uuid="GPU-node1-0003",name="NVIDIA H100 80GB HBM3",GPU_I_ID="",'
        'jobid="4711",userid="1001",node="node1"'
    )
    assert rows(owned(read(3), ANN), openmetrics=openmetrics) == [
        f"nvidia_gpu_jobId{{{labels}}} 4711.0",
        f"nvidia_gpu_jobUid{{{labels}}} 1001.0",
        f"nvidia_gpu_duty_cycle{{{labels}}} 58.0",
        f"nvidia_gpu_memory_used_bytes{{{labels}}} 40000000000.0",
        f"nvidia_gpu_memory_total_bytes{{{labels}}} 80000000000.0",
        f"nvidia_gpu_graphics_util_percent{{{labels}}} 0.57",
    ]


@pytest.mark.parametrize("owners", [(), (pod("ml", "train-0"),), (Owner("process", "77", user_id="5"),)])
def test_a_gpu_without_a_job_has_no_job_id(owners: Owners) -> None:
    found = rows(owned(read(0), *owners))
    assert [row.split("{")[0] for row in found] == [
        "nvidia_gpu_duty_cycle",
        "nvidia_gpu_memory_used_bytes",
        "nvidia_gpu_memory_total_bytes",
        "nvidia_gpu_graphics_util_percent",
    ]
    assert all(',jobid="",userid="",' in row for row in found)


def test_a_missing_reading_is_absent() -> None:
    assert [row.split("{")[0] for row in rows(owned(gpu(0), ANN))] == ["nvidia_gpu_jobId", "nvidia_gpu_jobUid"]


def test_an_instance_of_mig_has_no_duty_cycle_and_its_board_no_job() -> None:
    inside = owned(mig(0, 7, graphics_engine_active_ratio=0.5, memory_used_bytes=1e9, gpu_utilization_ratio=0.9), ANN)
    whole = owned(gpu(0, memory_used_bytes=2e9), ANN)  # a board has the owners of its instances
    assert inside.device.entity.uuid == whole.device.entity.uuid
    labels = 'name="NVIDIA H100 80GB HBM3 MIG 1g.10gb",GPU_I_ID="7",jobid="4711",userid="1001",node="node1"'
    found = rows(whole, inside)
    assert [row for row in found if 'GPU_I_ID="7"' in row] == [
        f'{name}{{ordinal="0",minor_number="0",uuid="MIG-0-7",{labels}}} {value}'
        for name, value in (
            ("nvidia_gpu_jobId", 4711.0),
            ("nvidia_gpu_jobUid", 1001.0),
            ("nvidia_gpu_memory_used_bytes", 1e9),
            ("nvidia_gpu_graphics_util_percent", 0.5),
        )
    ]
    assert sum('jobid="4711"' in row for row in found) == 4


def test_jobs_that_share_a_gpu_have_a_row_each() -> None:
    bob = Owner("slurm_job", "4712")
    found = [row for row in rows(owned(read(0), ANN, bob)) if "jobId" in row]
    assert [row.split()[-1] for row in found] == ["4711.0", "4712.0"]


def test_the_element_of_an_array_has_the_number_that_sacct_calls_raw() -> None:
    element = Owner("slurm_job", "4711_7", labels=(("job_id", "4718"),))
    assert 'jobid="4718"' in rows(owned(gpu(0), element))[0]
    assert rows(owned(gpu(0), Owner("slurm_job", "4711_7"))) == []


def test_minor_numbers_are_those_of_the_device_files() -> None:
    given = owned(gpu(0), ANN)
    assert 'minor_number="5"' in rows(given._replace(device=replace(given.device, device="nvidia5")))[0]
    assert 'minor_number="0"' in rows(given._replace(device=replace(given.device, device="")))[0]


def test_rows_follow_owners_and_values_and_a_gpu_of_two_targets_has_one() -> None:
    made = store_of(target("a", tick([owned(read(0), ANN)])), target("b", tick([read(0), read(1)])))
    pages = Pages(made, Telemetry(made), PageSettings(compat=["jobstats"]))

    def found() -> list[str]:
        page = pages.page(Monotonic(NOW), openmetrics=False, gzip=False).decode()
        return [line for line in page.splitlines() if line.startswith("nvidia_gpu_duty_cycle")]

    assert [line.split()[-1] for line in found()] == ["58.0", "58.0"]
    assert ['jobid="4711"' in line for line in found()] == [True, False]
    made.targets[0].accept(tick([owned(gpu(0, gpu_utilization_ratio=0.1), replace(ANN, id="4712"))]), Monotonic(NOW))
    assert 'jobid="4712"' in found()[0]
    assert found()[0].endswith(" 10.0")


def test_without_the_setting_there_are_none() -> None:
    assert "nvidia_gpu_" not in page_of(store_of(target("a", tick([read(0)]))))


def test_owner_labels_are_on_every_series_of_a_gpu() -> None:
    a, b = pod("ml", "a", "main"), pod("ml", "b")
    made = store_of(
        target("a", tick([owned(gpu(0, power_watts=5.0), a, b), owned(gpu(1, power_watts=6.0), ANN), gpu(2)]))
    )
    page = page_of(made, PageSettings(owner_labels=True))
    lines = [line for line in page.splitlines() if line.startswith("pulsed_gpu_")]
    first, second, free = ([line for line in lines if f'gpu="{number}"' in line] for number in range(3))
    assert len(first) == len(second) == len(free) + 1 > 20
    assert all('uuid="GPU-node1-0000",namespace="ml",pod="a,b",container="main"}' in line for line in first)
    assert all('uuid="GPU-node1-0001",user="ann",job_id="4711"}' in line for line in second)
    assert all('uuid="GPU-node1-0002"}' in line for line in free)
    assert "ann" not in page_of(made)
