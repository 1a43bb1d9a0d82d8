"""Histories of jobs that must and must not raise findings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, Owners, pod
from pulsed.model.vocabulary import Reading
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.account import FindingVerdict
from pulsed.owners.accounting.saved_accounts import dump_account, load_account
from pulsed.owners.exemptions import Exemption, FindingSettings
from pulsed.owners.findings import FindingChange, FindingDetector
from pulsed.owners.report.job_report import job_report
from pulsed.owners.report.text_table import first_finding
from pulsed.present.api.account_documents import account_document
from pulsed.present.notification import owner_findings
from pulsed.reader.demo.source import DemoSource
from pulsed.translate.translator import Translator
from tests.compute.streams import DAY
from tests.owners.accounting.streams import A, B, Node, job

GPUS = tuple(Device(Entity("gpu", str(index), f"GPU-{index}"), "H100") for index in range(4))
MINUTE = 6
"""Ticks of 10 seconds."""


def reading(
    level: float, watts: float, *, traffic: float = 0.0, gr: float | None = None, clock: float = 1.98e9
) -> Reading:
    return Reading(
        sm_active_ratio=level,
        tensor_active_ratio=level,
        dram_active_ratio=level / 2.0,
        graphics_engine_active_ratio=level if gr is None else gr,
        fp64_active_ratio=0.0,
        pcie_transmit_bytes_per_second=traffic,
        pcie_receive_bytes_per_second=traffic,
        power_watts=watts,
        sm_clock_hertz=clock,
    )


WORK = reading(0.8, 600.0, traffic=1e9, gr=0.98)
SPIN = reading(0.0, 180.0, gr=1.0)._replace(sm_active_ratio=0.12, tensor_active_ratio=0.0)
IDLE = reading(0.0, 90.0)
CHECKPOINT = reading(0.0, 130.0, traffic=12e9, gr=0.1)


class Job:
    """A job on some GPUs, whose findings are collected."""

    def __init__(
        self,
        gpus: int = 1,
        owner: Owner = A,
        sharers: tuple[Owner, ...] = (),
        devices: Sequence[Device] = GPUS,
    ) -> None:
        self.node = Node(10.0)
        self.detector = FindingDetector(self.node.accounting)
        self.owners, self.gpus, self.devices = (owner, *sharers), gpus, devices
        self.changes: list[FindingChange] = []

    def does(self, minutes: float, *readings: Reading) -> Job:
        """Do this for some minutes: one reading for all GPUs, or one each."""
        each = readings * self.gpus if len(readings) == 1 else readings
        for _ in range(round(minutes * MINUTE)):
            self.node.sees(*((self.owners, one) for one in each), devices=self.devices)
            assert self.node.tick is not None
            self.changes += self.detector.add(self.node.tick)
        return self

    def judged(self, gpu: Device = GPUS[0], owner: Owner | None = None) -> dict[str, bool | None]:
        """Whether each finding about a GPU holds."""
        findings = self.node.running(owner or self.owners[0]).on(gpu).findings
        return {name: verdict.holds for name, verdict in findings.items()}

    def missing(self, name: str, gpu: Device = GPUS[0]) -> str:
        """Why a finding about a GPU is not judged."""
        verdict = self.node.running(self.owners[0]).on(gpu).findings[name]
        assert (verdict.holds is None) is bool(verdict.missing)
        return verdict.missing

    @property
    def found(self) -> list[tuple[str, str, bool]]:
        return [(each.name, each.device.entity.gpu, each.is_active) for each in self.changes]


# A suspected hang


def test_a_deadlocked_collective_is_found_once_and_ends_with_work() -> None:
    made = Job().does(20, WORK).does(28, SPIN)
    assert made.judged() == {"hang": False}
    assert made.does(4, SPIN).found == [("hang", "0", True)]
    assert "180 W of 600 W before" in made.changes[0].message
    assert made.judged() == {"hang": True}
    made.does(2, WORK)
    assert made.found[1:] == [("hang", "0", False)]
    assert [event.check for event in made.node.running(A).on(GPUS[0]).events] == ["hang", "hang"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "history",
    [
        lambda made: made.does(25, SPIN),
        lambda made: made.does(20, WORK).does(25, SPIN).does(5, WORK).does(70, SPIN),
        lambda made: made.does(20, WORK).does(60, IDLE),
        lambda made: made.does(20, WORK).does(60, CHECKPOINT),
        lambda made: made.does(20, WORK).does(60, SPIN._replace(dram_active_ratio=0.3)),
        lambda made: made.does(20, WORK).does(60, SPIN._replace(pcie_receive_bytes_per_second=1e9)),
        lambda made: made.does(20, WORK).does(60, SPIN._replace(nvlink_receive_bytes_per_second=1e9)),
        lambda made: made.does(20, WORK).does(60, SPIN._replace(c2c_receive_bytes_per_second=1e9)),
        lambda made: made.does(20, WORK).does(60, SPIN._replace(sm_active_ratio=0.9, power_watts=400.0)),
        lambda made: made.does(60, SPIN._replace(power_watts=400.0, power_limit_watts=700.0)),
        lambda made: made.does(60, SPIN._replace(fp32_active_ratio=0.1)),
        lambda made: made.does(20, WORK).does(60, SPIN._replace(nvdec0_active_ratio=0.3)),
        lambda made: [made.does(1, SPIN._replace(sm_active_ratio=0.1 * (at % 3))) for at in range(-20, 60)],
    ],
    ids=[
        "spin",
        "short",
        "idle",
        "checkpoint",
        "dram",
        "pcie",
        "nvlink",
        "c2c",
        "registers",
        "power",
        "fp32",
        "media",
        "moving",
    ],
)
def test_what_is_no_hang(history: Callable[[Job], object]) -> None:
    made = Job()
    history(made)
    assert made.found == []
    assert made.judged() == {"hang": False}


HUNG = SPIN._replace(power_watts=70.0)


def after(
    minutes: float, *readings: Reading, then: float = 0.0, last: Sequence[Reading] = (HUNG,)
) -> Callable[[Job], object]:
    """Return the history of a job that works for an hour, does this, and then hangs for `then` minutes."""
    return lambda made: made.does(60, WORK).does(minutes, *readings).does(then, *last)


def rounds(minutes: Sequence[tuple[float, float]], *readings: Reading) -> Callable[[Job], Job]:
    """Return the history of a job that works for some minutes, then does something else for some, and so on."""

    def history(made: Job) -> Job:
        for work, other in minutes:
            made.does(work, WORK).does(other, *readings)
        return made

    return history


REQUESTS = [(2.0, gap) for gap in (1.0, 2.0, 1.0, 3.0, 1.0, 2.0, 4.0, 1.0)]
CHECKPOINTS = [(20.0, 4.0)] * 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("history", "first"),
    [
        pytest.param(after(33, HUNG), "", id="a deadlock of all ranks"),
        pytest.param(after(33, HUNG, HUNG, IDLE, HUNG), "2", id="one rank is gone, all others spin"),
        pytest.param(after(3, WORK, HUNG, WORK, WORK, then=33), "1", id="one rank stops while the others work"),
        pytest.param(after(3, WORK, WORK, WORK, IDLE, then=33, last=[HUNG] * 3 + [IDLE]), "3", id="one crashes early"),
        pytest.param(lambda made: rounds(CHECKPOINTS, HUNG)(made).does(20, WORK).does(33, HUNG), "", id="checkpoints"),
        pytest.param(lambda made: made.does(20, *[WORK] * 3, IDLE).does(33, *[HUNG] * 3, IDLE), "", id="3 of 4 used"),
        pytest.param(lambda made: made.does(4, WORK).does(33, HUNG), "", id="a job of 4 minutes"),
        pytest.param(
            lambda made: made.does(60, WORK._replace(power_watts=280.0)).does(33, SPIN._replace(power_watts=150.0)),
            "",
            id="a job of low power",
        ),
        pytest.param(after(120, IDLE), None, id="a server waits"),
        pytest.param(lambda made: made.does(4, WORK).does(25, HUNG), None, id="a server has only warmed up"),
        pytest.param(lambda made: made.does(240, WORK).does(28, HUNG).does(60, WORK), None, id="a server's first lull"),
        pytest.param(after(15, IDLE, HUNG, HUNG, HUNG, then=20, last=[WORK]), None, id="a first checkpoint"),
        pytest.param(lambda made: rounds(REQUESTS, HUNG)(made).does(120, HUNG), None, id="tensor parallel server"),
        pytest.param(lambda made: rounds(REQUESTS, IDLE)(made).does(120, IDLE), None, id="a server between requests"),
        pytest.param(after(40, WORK, HUNG, HUNG, HUNG), None, id="evaluation on rank 0"),
        pytest.param(rounds([(30.0, 8.0), (30.0, 20.0), (30.0, 45.0)], HUNG), None, id="evaluation on another node"),
        pytest.param(after(40, CHECKPOINT, HUNG, HUNG, HUNG), None, id="a checkpoint of rank 0"),
        pytest.param(rounds([(60.0, 9.0), (60.0, 25.0)], IDLE, HUNG, HUNG, HUNG), None, id="checkpoints to slow disks"),
        pytest.param(after(40, HUNG, HUNG, HUNG, HUNG._replace(dram_active_ratio=None)), None, id="one is not known"),
    ],
)  # fmt: skip
def test_jobs_that_hang_and_jobs_that_wait(history: Callable[[Job], object], first: str | None) -> None:
    """`first` is the GPU that is named as the one that stopped first; None: the job does not hang."""
    made = Job(4)
    history(made)
    if first is None:
        assert made.found == []
        return
    assert made.found == [("hang", str(gpu), True) for gpu in range(4)]
    for change in made.changes:
        assert f"; GPU {first} stopped first, at " in change.message if first else "first" not in change.message


def test_the_time_limit_follows_the_pauses_of_the_job_also_over_a_restart() -> None:
    made = Job().does(20, WORK).does(12, HUNG).does(20, WORK)
    saved = load_account(json.loads(json.dumps(dump_account(made.node.running(A)))))
    for each in (made, Job()):
        if each is not made:
            each.node.accounting.restore([saved])
        each.does(1, WORK).does(32, HUNG)
        assert each.found == [], "three times 12 minutes are not over"
        each.does(6, HUNG)
        assert each.found == [("hang", "0", True)]


def test_across_nodes_the_gpu_that_stopped_first_is_named() -> None:
    """A job on two nodes, each a target of its own."""
    accounting = OwnerAccounting()
    changes: list[FindingChange] = []
    detector = FindingDetector(accounting)
    nodes = [Node(10.0, accounting=accounting, target=name) for name in ("n1", "n2")]
    devices = [
        [
            replace(gpu, entity=replace(gpu.entity, node=node.target, uuid=f"{node.target}-{gpu.entity.gpu}"))
            for gpu in GPUS[:2]
        ]
        for node in nodes
    ]
    for minutes, (left, right) in (
        (60, ([WORK] * 2, [WORK] * 2)),
        (2, ([WORK] * 2, [WORK, IDLE])),
        (33, ([HUNG] * 2, [HUNG, IDLE])),
    ):
        for _ in range(minutes * MINUTE):
            for node, gpus, readings in zip(nodes, devices, (left, right), strict=True):
                node.sees(*(((A,), each) for each in readings), devices=gpus)
                assert node.tick is not None
                changes += detector.add(node.tick)
    assert [(each.name, each.device.entity.node, each.device.entity.gpu) for each in changes] == [
        ("hang", node, gpu) for node in ("n1", "n2") for gpu in ("0", "1")
    ]
    for each in changes:
        assert each.message.partition("; ")[2] == "GPU n2/1 stopped first, at 01:00:00 UTC"
    assert changes[-1].message.startswith("idle for 30 min while kernels of other GPUs of the job spin; ")


def test_the_node_that_died_is_named_and_its_gpus_are_unknown_members() -> None:
    """The clocks of the nodes differ by a day: each dates the work of its own GPUs."""
    accounting = OwnerAccounting()
    detector = FindingDetector(accounting)
    nodes = [Node(10.0, accounting=accounting, target=name) for name in ("n1", "n2")]
    nodes[0].wall += 86400.0
    changes: list[FindingChange] = []
    for minutes, readings in ((60, (WORK, WORK)), (33, (HUNG, None))):
        for _ in range(minutes * MINUTE):
            for node, each in zip(nodes, readings, strict=True):
                if each is not None:
                    gpu = replace(GPUS[0], entity=Entity("gpu", "0", node.target, node=node.target))
                    node.sees(((A,), each), devices=[gpu])
                    assert node.tick is not None
                    changes += detector.add(node.tick)
    assert [(each.name, each.device.entity.node, each.is_active) for each in changes] == [("hang", "n1", True)]
    assert changes[0].message.endswith("; node n2 has been silent since 01:00:00 UTC")
    account = nodes[0].running(A)
    silent = next(gpu for gpu in account.gpus.values() if gpu.device.entity.node == "n2")
    assert silent.findings["hang"] == FindingVerdict(None, "no samples")
    assert silent.extremes.last_work == DAY + 3600.0


def test_silence_of_the_gpus_that_spin_does_not_end_a_hang() -> None:
    made = Job(3).does(60, WORK).does(33, HUNG, HUNG, IDLE)
    assert [each[2] for each in made.found] == [True] * 3
    made.does(10, Reading(), Reading(), IDLE)
    assert len(made.found) == 3
    assert made.missing("hang", GPUS[2]) == "no samples of GPU 0"
    made.does(5, WORK)
    assert [each[2] for each in made.found[3:]] == [False] * 3


@pytest.mark.parametrize("sm", [0.97, 0.6])
def test_a_program_that_computes_in_registers_at_low_power_does_not_hang(sm: float) -> None:
    made = Job().does(10, WORK).does(80, SPIN._replace(sm_active_ratio=sm, power_watts=200.0, power_limit_watts=700.0))
    assert made.found == []
    assert made.judged()["hang"] is False


def test_a_gpu_that_is_no_longer_listed_is_an_unknown_member() -> None:
    gpus = [replace(gpu, entity=replace(gpu.entity, node="n1")) for gpu in GPUS[:3]]
    made = Job(3, devices=gpus).does(60, WORK)
    made.gpus = 2
    made.does(33, HUNG)
    assert made.found == [("hang", "0", True), ("hang", "1", True)]
    assert made.changes[0].message.endswith("; GPU n1/2 has been silent since 01:00:00 UTC")
    assert made.missing("straggler", gpus[0]) == "no samples of GPU n1/2"


def test_a_gpu_with_blank_readings_is_an_unknown_member() -> None:
    made = Job(3).does(60, WORK).does(33, HUNG, HUNG, Reading())
    assert made.found == [("hang", "0", True), ("hang", "1", True)]
    assert made.changes[0].message.endswith("; GPU 2 has been silent since 01:00:00 UTC")
    assert made.missing("hang", GPUS[2]) == "no samples"
    assert made.judged()["straggler"] is None


def test_a_job_that_spins_from_its_first_collective_on_hangs_and_the_idle_rank_is_named() -> None:
    made = Job(4).does(33, SPIN, SPIN, IDLE, SPIN)
    assert made.found == [("hang", str(gpu), True) for gpu in range(4)]
    assert all(change.message.endswith("; GPU 2 alone is idle") for change in made.changes)
    assert "before" not in made.changes[0].message


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("dram_active_ratio", "no DRAM_ACTIVE"),
        ("pcie_receive_bytes_per_second", "no PCIE_RX_BYTES"),
        ("graphics_engine_active_ratio", "no GR_ENGINE_ACTIVE"),
    ],
)
def test_without_an_input_a_hang_is_not_judged(name: str, missing: str) -> None:
    made = Job().does(30, SPIN._replace(**{name: None}))
    assert made.found == []
    assert made.missing("hang") == missing
    made = Job(2).does(20, WORK).does(30, SPIN, SPIN._replace(**{name: None}))
    assert made.missing("hang") == f"{missing} of GPU 1"
    assert made.does(2, WORK, SPIN._replace(**{name: None})).judged()["hang"] is False, "a GPU works"


def test_without_sm_activity_a_hang_is_judged_where_the_rest_suffices() -> None:
    spins, works = SPIN._replace(sm_active_ratio=None), WORK._replace(sm_active_ratio=None)
    assert Job().does(20, works).does(33, spins).found == [("hang", "0", True)], "power is far below that of work"
    assert Job().does(33, spins._replace(power_limit_watts=700.0)).found == [("hang", "0", True)]
    made = Job().does(20, works).does(33, spins._replace(power_watts=400.0))
    assert (made.found, made.missing("hang")) == ([], "no SM_ACTIVE")


def test_a_server_may_wait_for_requests() -> None:
    made = Job(4, replace(pod("ml", "chat"), workload="chat", workload_kind="Deployment")).does(60, WORK)
    assert made.judged()["hang"] is False
    assert made.does(120, HUNG).found == []
    assert made.missing("hang") == "a Deployment may wait for requests"
    made = rounds(REQUESTS, HUNG)(Job()).does(60, HUNG)
    assert made.missing("hang") == "its program often waits, as servers do"


def test_a_hang_goes_on_while_it_is_not_judged_and_over_a_restart() -> None:
    made = Job().does(20, WORK).does(33, SPIN).does(5, SPIN._replace(dram_active_ratio=None))
    assert made.found == [("hang", "0", True)]
    assert made.missing("hang") == "no DRAM_ACTIVE"
    saved = load_account(json.loads(json.dumps(dump_account(made.node.running(A)))))
    assert saved.on(GPUS[0]).findings == made.node.running(A).on(GPUS[0]).findings
    made = Job()
    made.node.accounting.restore([saved])
    assert made.does(5, SPIN).found == []
    assert made.judged() == {"hang": True}
    assert made.does(2, WORK).found == [("hang", "0", False)]


def test_a_hang_of_a_superchip_is_known_with_the_counters_of_its_link_only() -> None:
    """Its kernels can work on the processor's memory, with neither DRAM activity nor PCIe traffic."""
    gpu = replace(GPUS[0], model="NVIDIA GH200 480GB")
    link = dict.fromkeys(("c2c_transmit_bytes_per_second", "c2c_receive_bytes_per_second"), 0.0)
    for more, found in (({}, []), (link, [("hang", "0", True)])):
        made = Job(devices=(gpu,)).does(20, WORK._replace(**more)).does(33, SPIN._replace(**more))
        assert made.found == found
    assert Job(devices=(gpu,)).does(10, SPIN).missing("hang", gpu) == "no C2C_RX_ALL_BYTES"


def test_of_a_shared_gpu_nothing_is_judged() -> None:
    made = Job(sharers=(B,)).does(20, WORK).does(40, SPIN)
    assert (made.found, made.missing("hang")) == ([], "it shares GPUs with others")


def test_a_free_gpu_has_no_findings() -> None:
    made = Job(owner=Owner("nobody", "other")).does(20, WORK).does(40, SPIN)
    assert (made.found, made.judged()) == ([], {})


def test_the_next_job_does_not_inherit_a_hang() -> None:
    made = Job().does(20, WORK).does(25, SPIN)
    made.owners = (B,)
    assert made.does(25, SPIN).found == []


# Stragglers

STEP = Reading(
    sm_active_ratio=0.6,
    tensor_active_ratio=0.4,
    dram_active_ratio=0.3,
    graphics_engine_active_ratio=0.98,
    pcie_transmit_bytes_per_second=1e9,
    pcie_receive_bytes_per_second=1e9,
    power_watts=500.0,
    sm_clock_hertz=1.98e9,
)
"""A rank that works in step with others, and waits for some of them."""

SLOW = STEP._replace(sm_active_ratio=0.85, tensor_active_ratio=0.66, sm_clock_hertz=1.2e9)
"""The same work at a lower clock, so that the tensor pipes are busy for a longer share of the time."""


def levels(*ratios: float) -> Sequence[Reading]:
    return [reading(ratio, 500.0, traffic=1e9, gr=0.98) for ratio in ratios]


LOADING = reading(0.1, 200.0, traffic=5e9, gr=0.3)


def levels_of(minute: int) -> Sequence[float]:
    """Loads of replicas that have requests of their own."""
    return [0.55 if (minute // 2 + at) % 3 else 0.95 for at in range(2)] + [0.95, 0.5]


def test_a_straggler_is_named_with_its_peers_and_health() -> None:
    made = Job(4).does(20, STEP, STEP, SLOW, STEP)
    assert made.found == [("straggler", "2", True)]
    assert [made.judged(gpu)["straggler"] for gpu in GPUS] == [False, False, True, False]
    assert made.changes[0].message == (
        "slower than its peers for 10 min, with the same work: SM clock 1200 MHz, theirs 1980 MHz; its health is ok"
    )
    made.does(5, STEP)
    assert made.found[1:] == [("straggler", "2", False)]


@pytest.mark.parametrize(
    ("slow", "message"),
    [
        (WORK._replace(sm_clock_hertz=1.2e9), "SM clock 1200 MHz, theirs 1980 MHz"),
        (WORK._replace(sm_active_ratio=0.97), "SMs active 97%, theirs 80%"),
        (WORK._replace(graphics_engine_active_ratio=0.8), "graphics engine busy 80%, theirs 98%"),
    ],
    ids=["clock", "longer kernels", "waits for its host"],
)
def test_who_takes_longer_for_the_same_work_is_a_straggler(slow: Reading, message: str) -> None:
    made = Job(3).does(12, WORK, WORK, slow)
    assert made.found == [("straggler", "2", True)]
    assert f"with the same work: {message};" in made.changes[0].message


@pytest.mark.parametrize(("gpus", "slow"), [(4, 1), (8, 2), (8, 3), (16, 7)])
def test_several_slow_gpus_are_found_as_a_set(gpus: int, slow: int) -> None:
    devices = [Device(Entity("gpu", str(at), f"GPU-{at}", node="n1" if at < slow else "n2")) for at in range(gpus)]
    made = Job(gpus, devices=devices).does(12, *[SLOW] * slow, *[STEP] * (gpus - slow))
    assert [(each.name, each.device.entity.node) for each in made.changes] == [("straggler", "n1")] * slow
    named = ", ".join(f"n1/{at}" for at in range(slow))
    assert (f"; so are {slow} GPUs: {named};" in made.changes[0].message) is (slow > 1)
    document = account_document(made.node.running(A), "here")
    (advice,) = [each for each in document["advice"] if each["id"] == "straggler"]
    whose = f"GPUs all {slow} of node n1: slower" if slow > 1 else "GPU n1/0: slower"
    assert advice["evidence"].startswith(whose)


def test_of_two_halves_none_is_the_slow_one() -> None:
    made = Job(4).does(20, SLOW, SLOW, STEP, STEP)
    assert made.found == []
    assert made.missing("straggler").startswith(
        "half of its GPUs are slower than the others: SM clock 1200 MHz, theirs"
    )


def test_checkpoints_of_all_gpus_do_not_hide_a_straggler() -> None:
    made = Job(3)
    for _ in range(6):
        made.does(3, STEP, STEP, SLOW).does(0.5, CHECKPOINT)
    assert made.found == [("straggler", "2", True)]


DIFFERENT = "its GPUs do different work: "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("history", "missing"),
    [
        pytest.param(lambda made: made.does(60, *levels(0.8, 0.7, 0.6, 0.45)), DIFFERENT, id="uneven stages"),
        pytest.param(lambda made: made.does(60, *levels(0.8, 0.8, 0.8, 0.5)), DIFFERENT, id="a lighter stage"),
        pytest.param(lambda made: made.does(60, *levels(0.8, 0.8, 0.3, 0.3)), DIFFERENT, id="two kinds"),
        pytest.param(lambda made: made.does(60, *levels(0.8, 0.8, 0.8, 0.7)), "", id="close"),
        pytest.param(lambda made: made.does(60, *levels(0.01, 0.01, 0.01, 0.02)), "", id="little"),
        pytest.param(lambda made: made.does(60, IDLE), "its GPUs do no tensor or memory work", id="idle"),
        pytest.param(
            lambda made: [
                made.does(5, STEP, STEP, SLOW, STEP).does(5, STEP, SLOW, STEP, STEP).does(5, STEP) for _ in range(4)
            ],
            "",
            id="changing",
        ),
        pytest.param(lambda made: made.does(30, IDLE, WORK, IDLE, IDLE), DIFFERENT, id="1 of 4 used"),
        pytest.param(
            lambda made: made.does(30, WORK).does(30, WORK, *[IDLE] * 3), DIFFERENT, id="evaluation on rank 0"
        ),
        pytest.param(lambda made: made.does(60, *levels(0.9, 0.5, 0.5, 0.5)), DIFFERENT, id="one busy replica"),
        pytest.param(lambda made: made.does(60, WORK, WORK, WORK, IDLE), DIFFERENT, id="one without work"),
        pytest.param(lambda made: made.does(60, WORK, WORK, WORK, LOADING), DIFFERENT, id="one that loads data"),
        pytest.param(
            lambda made: [made.does(1, *levels(*levels_of(minute))) for minute in range(60)],
            DIFFERENT,
            id="replicas of a service",
        ),
        pytest.param(
            lambda made: made.does(20, STEP, STEP, SLOW, STEP._replace(tensor_active_ratio=None)),
            "no PIPE_TENSOR_ACTIVE",
            id="an input is missing",
        ),
    ],
)
def test_what_is_no_straggler(history: Callable[[Job], object], missing: str) -> None:
    """`missing` is why it is not judged."""
    made = Job(4)
    history(made)
    assert made.found == []
    assert made.judged()["straggler"] is (None if missing else False)
    assert made.missing("straggler").startswith(missing)


def test_who_does_how_much_of_different_work_is_named() -> None:
    made = Job(4).does(5, *levels(0.5, 0.8, 0.5, 0.3))
    assert made.missing("straggler") == DIFFERENT + "tensor 30% (GPU 3) to 80% (GPU 1), DRAM 15% (GPU 3) to 40% (GPU 1)"


def test_one_of_two_gpus_has_no_peers() -> None:
    made = Job(2).does(30, STEP, SLOW)
    assert made.found == []
    assert "straggler" not in made.judged(GPUS[1])


def test_gpus_of_different_jobs_are_no_peers() -> None:
    made = Job(4)
    for _ in range(30 * MINUTE):
        made.node.sees(*(((job(str(at)),), SLOW if at == 2 else STEP) for at in range(4)), devices=GPUS)
        assert made.node.tick is not None
        made.changes += made.detector.add(made.node.tick)
    assert made.found == []


# Leaked memory

HOLDING = IDLE._replace(memory_used_bytes=40e9)


def nobody_has(made: Job, minutes: float, *readings: Reading, owners: Owners | None = ()) -> Job:
    made.owners = owners  # type: ignore[assignment]
    return made.does(minutes, *readings)


def test_memory_that_nobody_has_is_found_after_ten_minutes() -> None:
    made = nobody_has(Job().does(5, WORK._replace(memory_used_bytes=40e9)), 9, HOLDING)
    assert made.found == []
    nobody_has(made, 3, HOLDING)
    assert made.found == [("leaked_memory", "0", True)]
    assert made.changes[0].owner.kind == "nobody"
    assert made.changes[0].message == "37.3 GiB in use for 10 min, and no job or pod has the idle GPU"
    nobody = made.node.running(made.changes[0].owner)
    assert made.judged(owner=nobody.owner) == {"leaked_memory": True}
    assert [event.check for event in nobody.on(GPUS[0]).events] == ["leaked_memory"]
    assert made.node.tick is not None
    assert (made.node.tick.gpus[0].result.counters.value("idle_seconds", "held") or 0.0) >= 11 * 60.0
    nobody_has(made, 2, IDLE._replace(memory_used_bytes=0.0))
    assert made.found[1:] == [("leaked_memory", "0", False)]
    assert [account.owner.kind for account in made.node.ended] == ["slurm_job", "nobody"]


@pytest.mark.parametrize(
    ("held", "owners"),
    [
        (HOLDING, None),  # owners are not known
        (HOLDING, (A,)),
        (IDLE._replace(memory_used_bytes=100e6), ()),
        (IDLE, ()),
        (WORK._replace(memory_used_bytes=40e9), ()),
        (HOLDING._replace(encoder_utilization_ratio=0.4), ()),
    ],
)
def test_what_is_no_leak(held: Reading, owners: Owners | None) -> None:
    assert nobody_has(Job(), 30, held, owners=owners).found == []


def test_a_job_takes_over_from_leaked_memory() -> None:
    made = nobody_has(Job(), 12, HOLDING)
    made.owners = (B,)
    assert made.does(3, HOLDING).found == [("leaked_memory", "0", True), ("leaked_memory", "0", False)]


@pytest.mark.slow
async def test_the_demo_has_a_job_whose_gpus_do_different_work() -> None:
    """A demo of 12 minutes: the GPU with failing memory does less than its peers; nothing hangs."""
    source, translator, layer = (
        DemoSource(interval=2.0, pace=False, start=DAY),
        Translator(),
        ComputeLayer(GpuTable()),
    )
    accounting = OwnerAccounting()
    detector = FindingDetector(accounting)
    found: list[FindingChange] = []
    for _ in range(360):
        computed = layer.compute(translator.translate(await source.read()))
        accounting.add(computed)
        found += detector.add(computed)
    assert found == []
    job = next(each for each in accounting.running if each.owner.id == "4711")
    for gpu in job.gpus.values():
        assert gpu.findings["hang"] == FindingVerdict(holds=False)
        assert gpu.findings["straggler"].missing.startswith("its GPUs do different work: tensor ")


# Owners that are exempt


def test_an_exempt_job_has_neither_findings_nor_advice_about_its_work() -> None:
    owner = replace(A, partition="interactive")
    settings = FindingSettings((Exemption("people think", partition="interactive"),))
    made, other = Job(owner=owner), Job(owner=replace(A, partition="batch"))
    for each in (made, other):
        each.detector = FindingDetector(each.node.accounting, settings.reason)
        each.does(20, WORK).does(60, SPIN).does(60, IDLE)
    assert (made.found, made.missing("hang")) == ([], "exempt: people think")
    assert other.found[0] == ("hang", "0", True)
    account = made.node.running(owner)
    assert list(owner_findings(account, 600.0)) == []
    assert [each.kind for each in owner_findings(other.node.running(owner), 600.0)] == ["held_idle"]
    document = account_document(load_account(dump_account(account)), "n")
    assert (document["exempt"], document["advice"]) == ("people think", [])
    assert job_report(document).splitlines()[1].startswith("Verdict     Exempt from findings (people think): ")
    assert first_finding(document) == "exempt: people think"


@pytest.mark.parametrize(
    ("exemption", "is_exempt"),
    [
        (Exemption("r", partition="gpu"), True),
        (Exemption("r", account="lab"), True),
        (Exemption("r", label="app"), True),
        (Exemption("r", label="app=notebook"), True),
        (Exemption("r", label="app=train"), False),
        (Exemption("r", label="other"), False),
        (Exemption("r", partition="gpu", account="lab", label="app"), True),
        (Exemption("r", partition="gpu", account="other"), False),
    ],
)
def test_an_owner_must_match_all_criteria_of_an_exemption(exemption: Exemption, is_exempt: bool) -> None:
    owner = Owner("slurm_job", "1", partition="gpu", account="lab", labels=(("app", "notebook"),))
    assert exemption.matches(owner) is is_exempt
