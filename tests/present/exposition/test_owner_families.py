"""Series of owners: right sums, a bounded number, and none for owners of stale targets."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, Owners, pod
from pulsed.model.target_store import Target, TargetStore
from pulsed.model.vocabulary import Reading
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.findings import FindingDetector
from pulsed.owners.report.owner_totals import WorkloadTotals
from pulsed.present.exposition.catalog import NAMES, catalog
from pulsed.present.exposition.owner_families import OWNER_NAMES, OwnerFamilies
from tests.compute.streams import DAY, GPU, OTHER, activity
from tests.owners.accounting.streams import Node, job

NOW = 100.0
WORKS = Reading(**activity(0.6), memory_used_bytes=40e9, power_watts=500.0)
RESTS = Reading(**activity(0.0), memory_used_bytes=10e9, power_watts=100.0)
ANN = Owner("slurm_job", "4711", Unix(DAY), user="ann", account="lab", partition="gpu")

Series = Mapping[str, Sequence[tuple[dict[str, str], float]]]


class Published:
    """A node and the families of its owners."""

    def __init__(self, max_owners: int = 256, exclude: Sequence[str] = ()) -> None:
        self.node = Node()
        self.findings = FindingDetector(self.node.accounting)
        self.target = Target("exporter", "test", 1.0, 10.0)
        self.families = OwnerFamilies(
            TargetStore("here", [self.target]),
            self.node.accounting,
            max_owners,
            catalog("lean", exclude=exclude).owners,
        )

    def sees(
        self, *gpus: tuple[Owners | None, Reading], times: int = 1, devices: Sequence[Device] = (GPU, OTHER)
    ) -> None:
        for _ in range(times):
            self.node.sees(*gpus, devices=devices)
            assert self.node.tick is not None
            self.findings.add(self.node.tick)
        assert self.node.tick is not None
        self.target.accept(self.node.tick, Monotonic(NOW))

    def series(self, now: float = NOW) -> Series:
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in self.families.collect(Monotonic(now)):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
        return found


def test_a_job_of_a_worker_that_is_a_pod_has_both_names() -> None:
    published = Published()
    worker = replace(ANN, name="w-0", namespace="slurm", container="slurmd")
    published.sees(((worker,), WORKS), times=5)
    series = published.series()
    pod_labels = {"namespace": "slurm", "pod": "w-0", "container": "slurmd"}
    job_labels = {"job_id": "4711", "user": "ann", "account": "lab", "partition": "gpu"}
    for group, labels in (("pod", pod_labels), ("job", job_labels)):
        assert series[f"pulsed_{group}_gpus"] == [(labels, 1)]
        assert series[f"pulsed_{group}_gpu_seconds_total"] == [(labels, 4.0)], "not half of it"
    ((info, _),) = series["pulsed_gpu_owner_info"]
    assert info.items() >= {"kind": "slurm_job", **pod_labels, **job_labels}.items()


def test_a_container_without_a_pod_is_an_owner() -> None:
    published = Published()
    published.sees(((Owner("container", "t1", container="t1"),), WORKS), times=2)
    series = published.series()
    ((info, _),) = series["pulsed_gpu_owner_info"]
    assert (info["kind"], info["container"]) == ("container", "t1")
    assert not [name for name in series if name.startswith("pulsed_pod_")]


def test_a_job_on_two_gpus() -> None:
    published = Published()
    published.sees(((ANN,), WORKS), ((ANN,), RESTS), times=5)
    series = published.series()
    labels = {"job_id": "4711", "user": "ann", "account": "lab", "partition": "gpu"}
    assert series["pulsed_gpu_owner_info"] == [
        ({"node": "here", "gpu": gpu, "uuid": f"GPU-{gpu}", "kind": "slurm_job", **labels}, 1) for gpu in "01"
    ]
    values = {name: rows[0][1] for name, rows in series.items() if name.startswith("pulsed_job_")}
    assert all(rows == [(labels, rows[0][1])] for name, rows in series.items() if name.startswith("pulsed_job_"))
    assert values == pytest.approx(
        {
            "pulsed_job_gpus": 2,
            "pulsed_job_real_utilization_ratio": 0.3,
            "pulsed_job_memory_used_bytes": 50e9,
            "pulsed_job_power_watts": 600.0,
            "pulsed_job_gpu_seconds_total": 8.0,
            "pulsed_job_observed_seconds_total": 8.0,
            "pulsed_job_real_utilization_seconds_total": 0.6 * 4,
            "pulsed_job_real_utilization_unknown_seconds_total": 0.0,
            "pulsed_job_idle_seconds_total": 4.0,
            "pulsed_job_energy_joules_total": 600.0 * 4,
            "pulsed_job_idle_energy_joules_total": 100.0 * 4,
        }
    )


def test_a_shared_gpu_is_halved() -> None:
    published = Published()
    published.sees(((pod("ml", "a", "main"), pod("ml", "b")), WORKS), times=5)
    series = published.series()
    assert series["pulsed_pod_gpu_seconds_total"] == [
        ({"namespace": "ml", "pod": "a", "container": "main"}, 2.0),
        ({"namespace": "ml", "pod": "b"}, 2.0),
    ]
    assert [number for _, number in series["pulsed_pod_observed_seconds_total"]] == [4.0, 4.0]
    assert [number for _, number in series["pulsed_pod_power_watts"]] == [250.0, 250.0]
    assert [number for _, number in series["pulsed_pod_gpus"]] == [1, 1]


def of(workload: str, name: str, container: str = "") -> Owner:
    return replace(pod("ml", name, container), workload=workload, workload_kind="Deployment")


def of_workloads(series: Series, name: str) -> dict[str, float]:
    """Return the values of a family of workloads by their names."""
    return {labels["workload"]: number for labels, number in series.get(f"pulsed_workload_{name}", ())}


def test_the_pods_of_a_workload_are_summed_up() -> None:
    published = Published()
    published.sees(((of("w", "a"),), WORKS), ((of("w", "b"),), RESTS), times=3)
    series = published.series()
    labels = {"namespace": "ml", "workload": "w", "workload_kind": "Deployment"}
    expected = {"gpus": 2.0, "pods": 2.0, "real_utilization_ratio": 0.3, "real_utilization_ratio_sum": 0.6}
    for name, number in {**expected, "gpu_seconds_total": 4.0}.items():
        ((found, value),) = series[f"pulsed_workload_{name}"]
        assert found == labels
        assert value == pytest.approx(number)


def test_a_gpu_that_workloads_share_counts_once() -> None:
    published = Published()
    published.sees(((of("v", "a"), of("w", "b"), of("w", "c", "x"), of("w", "c", "y")), WORKS), times=3)
    series = published.series()
    assert of_workloads(series, "gpus") == {"v": 0.25, "w": 0.75}
    assert of_workloads(series, "pods") == {"v": 1, "w": 2}
    assert of_workloads(series, "real_utilization_ratio") == pytest.approx({"v": 0.6, "w": 0.6})
    assert of_workloads(series, "real_utilization_ratio_sum") == pytest.approx({"v": 0.15, "w": 0.45})


def test_an_idle_workload_is_0_and_one_without_data_is_absent() -> None:
    published = Published()
    published.sees(((of("idle", "a"),), RESTS), ((of("unknown", "b"),), Reading()), times=3)
    series = published.series()
    assert of_workloads(series, "gpus") == {"idle": 1, "unknown": 1}
    for name, number in (("real_utilization_ratio", 0), ("real_utilization_ratio_sum", 0)):
        assert of_workloads(series, name) == {"idle": number}
    assert not any(name.startswith("pulsed_workload_") for name in published.series(NOW + 11.0)), "stale"


def test_the_sum_of_a_workload_is_absent_if_a_part_is_unknown() -> None:
    published = Published()
    published.sees(((of("w", "a"),), WORKS), ((of("w", "b"),), Reading()), times=3)
    series = published.series()
    assert of_workloads(series, "real_utilization_ratio") == pytest.approx({"w": 0.6})
    assert of_workloads(series, "real_utilization_ratio_sum") == {}


def test_all_pods_of_a_workload_count_though_their_own_series_are_limited() -> None:
    published = Published(max_owners=2)
    crowd = tuple(of(workload, f"{workload}-{number}") for workload in "xyz" for number in range(4))
    published.sees((crowd, WORKS), times=3)
    for _ in range(2):
        series = published.series()
    assert len(series["pulsed_pod_gpus"]) == 2
    assert of_workloads(series, "pods") == {"x": 4, "y": 4}
    dropped = {labels["reason"]: number for labels, number in series["pulsed_jobs_dropped_total"]}
    assert dropped == {"series": 10, "workloads": 1, "accounts": 0}


def test_counters_of_a_workload_never_decrease_while_its_pods_come_and_go() -> None:
    published = Published()
    node, totals = published.node, published.families.workloads
    node.accounting = OwnerAccounting(on_end=totals.end)
    published.families.accounting = node.accounting
    found = []
    for number in range(12):  # a new pod every 5 s, and a short one that no scrape sees
        first, other = of("w", f"a-{number}"), of("w", f"b-{number}")
        published.sees(((first,), WORKS), ((other,), RESTS), times=2)
        published.sees(((first,), WORKS), ((), RESTS), times=3)
        found.append(of_workloads(published.series(), "gpu_seconds_total")["w"])
    growth = [after - before for before, after in pairwise(found)]
    assert growth == pytest.approx([4.0 + 1.0] * 11), "the sample of a change counts for none of both"
    published.sees(((), RESTS), ((), RESTS), times=5)
    assert of_workloads(published.series(), "gpu_seconds_total") == {}
    published.sees(((of("w", "late"),), WORKS), ((), RESTS), times=3)
    assert of_workloads(published.series(), "gpu_seconds_total")["w"] > found[-1]


def test_counters_of_a_workload_begin_with_0_though_accounts_are_older() -> None:
    published = Published()
    published.sees(((of("w", "a"),), WORKS), times=10)
    published.families.workloads.skip(published.node.accounting.unfinished)
    assert of_workloads(published.series(), "gpu_seconds_total") == {"w": 0.0}
    published.sees(((of("w", "a"),), WORKS), times=10)
    series = published.series()
    assert of_workloads(series, "gpu_seconds_total") == pytest.approx({"w": 10.0})
    assert of_workloads(series, "energy_joules_total") == pytest.approx({"w": 5000.0})
    assert series["pulsed_pod_gpu_seconds_total"][0][1] == pytest.approx(19.0)


def test_chosen_labels_of_pods_are_those_of_the_info() -> None:
    published = Published()
    owner = replace(pod("ml", "a"), labels=(("app.kubernetes.io/name", "web"), ("team", "vision")))
    published.sees(((owner,), WORKS))
    (labels, _), *_ = published.series()["pulsed_gpu_owner_info"]
    assert {name: text for name, text in labels.items() if name.startswith("label_")} == {
        "label_app_kubernetes_io_name": "web",
        "label_team": "vision",
    }


def test_findings_are_series_of_gpus() -> None:
    spins = WORKS._replace(
        sm_active_ratio=0.2,
        tensor_active_ratio=0.0,
        dram_active_ratio=0.0,
        graphics_engine_active_ratio=1.0,
        power_watts=200.0,
    )
    published = Published()
    published.node.interval = 10.0
    published.sees(((ANN,), WORKS), (None, WORKS), times=40)
    labels = {"node": "here", "gpu": "0", "uuid": "GPU-0"}
    assert published.series()["pulsed_gpu_hang_suspected"] == [(labels, 0)]
    assert "pulsed_gpu_straggler" not in published.series()
    published.sees(((ANN,), spins), (None, spins), times=200)
    assert published.series()["pulsed_gpu_hang_suspected"] == [(labels, 1)]
    unknown = spins._replace(dram_active_ratio=None)
    published.sees(((ANN,), unknown), (None, unknown), times=20)
    assert "pulsed_gpu_hang_suspected" not in published.series(), "it is not judged"


def test_series_end_with_the_owner_and_with_fresh_data() -> None:
    published = Published()
    published.sees(((ANN,), WORKS), times=3)
    assert "pulsed_job_gpus" in published.series()
    assert "pulsed_job_gpus" not in published.series(NOW + 11.0)
    published.sees(((), RESTS))
    assert "pulsed_job_gpus" not in published.series()


def test_without_owners_there_is_nothing() -> None:
    published = Published()
    published.sees((None, WORKS), times=3)
    assert published.series() == {}


def test_an_unknown_quantity_is_absent() -> None:
    published = Published()
    published.sees(((ANN,), Reading()), times=3)
    assert {name for name in published.series() if name.startswith("pulsed_job_")} == {
        "pulsed_job_gpus",
        "pulsed_job_gpu_seconds_total",
        "pulsed_job_observed_seconds_total",
        "pulsed_job_real_utilization_unknown_seconds_total",
        "pulsed_job_idle_seconds_total",
    }


def test_time_without_an_owner_is_no_series_of_a_workload_or_user() -> None:
    published = Published()
    for owners in ((ANN,), (), ()):
        published.sees((owners, WORKS), times=3)
    ended = published.node.accounting.free()
    assert ended is not None
    published.node.accounting.end_free()
    workloads = WorkloadTotals()
    workloads.end(ended)
    assert workloads.sums == {}
    assert "no owner" not in str(published.series())


def test_every_family_is_one_that_can_be_excluded() -> None:
    pod_owner = Owner("pod", "ml/a", namespace="ml", name="a", workload="w", workload_kind="Job", allocated=0.5)
    owners = (replace(ANN, allocated=0.5), pod_owner)
    published = Published()
    published.node.interval = 10.0
    devices = [GPU, *(replace(GPU, entity=Entity("gpu", str(each), f"GPU-{each}")) for each in (1, 2, 3))]
    leaked: tuple[Owners, Reading] = ((), RESTS._replace(memory_used_bytes=9e9))
    devices.append(replace(GPU, entity=Entity("gpu", "4", "GPU-4")))
    published.sees((owners[1:], WORKS), *[(owners[:1], WORKS)] * 3, leaked, times=80, devices=devices)
    series = published.series()
    assert set(series) == set(OWNER_NAMES) < set(NAMES)
    for name in OWNER_NAMES:
        published.families.published = catalog("full", exclude=[name]).owners
        assert published.series() == {key: rows for key, rows in series.items() if key != name}


def test_excluded_families_are_absent() -> None:
    published = Published(exclude=["pulsed_pod_*", "pulsed_job_*_joules_total", "pulsed_gpu_owner_info"])
    published.sees(((ANN,), WORKS), ((pod("ml", "a"),), WORKS), times=3)
    found = published.series()
    assert "pulsed_job_gpu_seconds_total" in found
    assert "pulsed_jobs_dropped_total" in found
    assert [name for name in found if name.startswith("pulsed_pod_") or "joules" in name or "info" in name] == []


def test_beyond_the_limit_the_newest_owners_have_no_series_and_are_counted_once() -> None:
    published = Published(max_owners=2)
    crowd = tuple(job(str(number), DAY - number) for number in range(5))
    published.sees((crowd, WORKS), times=3)
    for _ in range(3):
        series = published.series()
    assert [labels["job_id"] for labels, _ in series["pulsed_job_gpus"]] == ["4", "3"]
    assert len(series["pulsed_gpu_owner_info"]) == 2
    assert series["pulsed_jobs_dropped_total"] == [({"reason": "series"}, 3.0), ({"reason": "accounts"}, 0.0)]


def test_the_owners_without_series_are_counted_and_logged_when_they_begin_and_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    published = Published(max_owners=2)
    caplog.set_level(logging.INFO, "pulsed.present")
    found = []
    for count in (2, 5, 6, 1):
        published.sees((tuple(job(str(number), DAY - number) for number in range(count)), WORKS), times=2)
        found.append({row["group"]: value for row, value in published.series()["pulsed_owners_without_series"]})
    assert found == [{"owners": each, "workloads": 0, "accounts": 0} for each in (0, 3, 4, 0)]
    assert [(record.levelname, getattr(record, "without", 0)) for record in caplog.records] == [
        ("WARNING", 3),
        ("INFO", 0),
    ]


def test_the_oldest_owner_of_each_gpu_has_series_first() -> None:
    published = Published(max_owners=2)
    crowd = tuple(job(str(number), DAY - 9) for number in range(5))
    published.sees((crowd, WORKS), ((job("new"),), WORKS), times=3)
    assert [labels["job_id"] for labels, _ in published.series()["pulsed_job_gpus"]] == ["0", "new"]


def test_owners_without_an_account_are_counted() -> None:
    published = Published()
    published.sees((tuple(job(str(number)) for number in range(80)), WORKS), times=2)
    rows = {row["group"]: value for row, value in published.series()["pulsed_owners_without_series"]}
    assert rows == {"owners": 0, "workloads": 0, "accounts": 8}
