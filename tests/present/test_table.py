from __future__ import annotations

from unicodedata import east_asian_width

from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import Device, Entity
from pulsed.model.owner import Owner, pod
from pulsed.model.target_store import TargetStore
from pulsed.model.vocabulary import NOTHING
from pulsed.present.table import WIDTH, table
from tests.present.boards import FLICKER, OPEN, Gpu, busy_gpus, gpu, mig, store_of, target, tick

NOW = 100.0


def lines(made: TargetStore, now: float = NOW) -> list[str]:
    text = table(made, Monotonic(now))
    assert text.endswith("\n")
    for line in text.splitlines():
        if not line.startswith(("missing", "down", "stale")):
            assert sum(2 if east_asian_width(character) in "WF" else 1 for character in line) <= WIDTH
    return text.splitlines()


def test_a_line_per_gpu() -> None:
    values = {"sm_active_ratio": 0.41, "power_watts": 312.4, "memory_used_bytes": 2.0**30, "memory_bytes": 80 * 2.0**30}
    head, first, second = lines(
        store_of(target("a", tick([gpu(0)._replace(reading=NOTHING._replace(**values)), gpu(1)])))
    )
    assert head.split()[:3] == ["GPU", "MODEL", "REAL"]
    assert " ".join(first.split()) == "0 H100 80GB HBM3 62% memory_bound 41% - - - - 1.0/80.0 312 -"
    assert second.split()[-8:] == ["-"] * 8


def test_the_class_is_the_held_one() -> None:
    _, line = lines(store_of(target("a", tick([gpu(0, result=FLICKER)]))))
    assert line.split()[5] == "idle"


def test_owners() -> None:
    job, shared = (gpu(at) for at in (0, 1))
    job = job._replace(owners=(Owner("slurm_job", "4711"),))
    shared = shared._replace(owners=(pod("ml", "web"), pod("ml", "chat")))
    _, first, second, free = lines(store_of(target("a", tick([job, shared, gpu(2)]))))
    assert first.endswith("  4711")
    assert second.endswith("  (2) web")
    assert free.endswith("-")


def test_bounds_stand_beside_what_is_not_settled_and_missing_inputs_below() -> None:
    found = lines(store_of(target("a", tick([gpu(0), gpu(1, result=OPEN), mig(2, 7), gpu(3, result=OPEN)]))))
    assert "? 10..90" in found[2]
    assert "7 1g.10gb" in found[3]
    assert found[-1] == "missing on GPU 1, 2:7, 3: sm_active_ratio, dram_active_ratio"


def test_demo_data_says_so_first() -> None:
    assert lines(store_of(target("demo", tick([gpu(0)]), kind="demo")))[0].startswith("DEMO DATA")


def test_sources_that_are_down_or_stale_are_named_with_the_reason() -> None:
    made = store_of(target("a", tick([gpu(0)])), target("b"))
    made.targets[1].fail("scrape_failed", "connection refused. Is it running?")
    found = lines(made, NOW + 60)
    assert "stale: a" in found
    assert "down: b: connection refused. Is it running?" in found


def test_nothing_known_is_said() -> None:
    assert lines(store_of(target("a"))) == ["no GPUs", "down: a: no data yet"]


def test_a_replay_that_has_ended_is_not_down() -> None:
    made = store_of(target("a", tick([gpu(0)]), kind="replay"))
    made.targets[0].end("the capture is at its end")
    assert not any(line.startswith("down") for line in lines(made))


def test_long_and_odd_names_fit_and_do_nothing_to_the_terminal() -> None:
    device = Device(Entity("mig", "0", "GPU-a", "12", "7g.80gb+me.all", node="\x1b[31mnode\n" + "n" * 80), "値" * 90)
    values = busy_gpus(1, 1)[0].reading
    found = lines(store_of(target("a", tick([Gpu(device, values, OPEN), gpu(1)]))))
    assert len(found) == 4
    assert "\x1b" not in "".join(found)
    assert "…" in found[1]


def test_many_gpus_that_miss_the_same_are_counted() -> None:
    some = [gpu(number, result=OPEN) for number in range(40)]
    assert lines(store_of(target("a", tick(some))))[-1].startswith("missing on all GPUs: ")
    assert " and 24 more: " in lines(store_of(target("a", tick([*some, gpu(99)]))))[-1]
