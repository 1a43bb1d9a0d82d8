"""The parts of the page have all series of the whole page, each once."""

from __future__ import annotations

import asyncio
import gzip
import re

import pytest

from pulsed.model.health import Health
from pulsed.model.raw_tick import Series
from pulsed.model.target_store import Target, TargetStore
from pulsed.present.exposition import page
from pulsed.present.exposition.catalog import catalog
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.page_parts import GROUP_TARGETS, WHOLE, PageParts, PartKind
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.present.exposition.text_format import PIECE_LINES
from tests.present.boards import SETTLED, busy_gpus, gpu, mig, store_of, target, tick
from tests.present.strategies import NOW

SETTINGS = PageSettings(passthrough=True, compat=["jobstats"])


def pages_of(store: TargetStore, settings: PageSettings = SETTINGS) -> Pages:
    return Pages(store, Telemetry(store), settings)


async def asked(pages: Pages, name: str, now: float) -> str:
    part = pages.parts.part(name, now)
    assert part is not None
    return (await pages.serve(now, openmetrics=False, gzip=False, part=part)).decode()


def part_of(pages: Pages, name: str, now: float = NOW, *, packed: bool = False) -> str:
    part = pages.parts.part(name, now)
    assert part is not None
    body = asyncio.run(pages.serve(now, openmetrics=False, gzip=packed, part=part))
    return (gzip.decompress(body) if packed else body).decode()


def series(text: str) -> list[str]:
    """Return the samples but for those of this process, whose values change from page to page."""
    return [line for line in text.splitlines() if not re.match(r"#|process_|pulsed_(tick|http)_", line)]


def exporter(number: int, gpus: int = 2) -> Target:
    name = f"node{number}"
    raw = [(Series("DCGM_FI_DEV_GPU_TEMP", (("gpu", "0"), ("Hostname", name))), 40.0 + number)]
    return target(f"http://{name}:9400/metrics", tick(busy_gpus(gpus, number, name), series=raw))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["group", "node"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_parts_have_the_series_of_the_page(by: PartKind, packed: bool) -> None:
    store = store_of(*map(exporter, range(GROUP_TARGETS + 6)), target("down"), target("mig", tick([mig(0, 7)])))
    store.targets.append(target("again", tick([gpu(0, "node3"), gpu(9, "node3")])))
    whole = pages_of(store).page(NOW, openmetrics=False, gzip=False).decode()
    pages = pages_of(store)
    names = pages.parts.names(by, NOW)
    assert names[-1] == "daemon"
    assert len(names) == (3 if by == "group" else GROUP_TARGETS + 6 + 1)
    found = [line for name in names for line in series(part_of(pages, name, packed=packed))]
    assert sorted(found) == sorted(series(whole))
    assert "pulsed_gpu_info" not in part_of(pages, "daemon")


async def test_the_sums_of_many_nodes_are_rendered_in_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step ends a turn of the event loop here, which the test counts."""
    monkeypatch.setattr(page, "TURN_SECONDS", -1.0)
    pages = pages_of(store_of(*map(exporter, range(300))), PageSettings(catalog("fleet")))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    body = await pages.serve(NOW, openmetrics=False, gzip=False, part=pages.parts.part("daemon", NOW) or WHOLE)
    counting.cancel()
    assert turns > 300 + body.count(b"\n") / PIECE_LINES > 310


async def test_a_small_page_is_one_step_whatever_a_turn_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the requests of many clients would overlap on a busy machine, and be refused as too many."""
    monkeypatch.setattr(page, "TURN_SECONDS", -1.0)
    pages, others = pages_of(store_of(*map(exporter, range(8)))), 0

    async def count() -> None:
        nonlocal others
        others += 1

    waiting = asyncio.create_task(count())
    for name in ("daemon", "groups/0", "nodes/node3", ""):
        part = pages.parts.part(name, NOW) if name else WHOLE
        assert await pages.serve(NOW, openmetrics=False, gzip=True, part=part or WHOLE)
        assert others == 0, name
    await waiting


@pytest.mark.slow
async def test_sums_of_many_nodes_keep_no_other_part_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPUs of a target change meanwhile: the sums are still those of the ticks with which they began."""
    monkeypatch.setattr(page, "TURN_SECONDS", -1.0)
    store = store_of(*map(exporter, range(300)))
    expected = [
        line for line in (await asked(pages_of(store), "daemon", NOW)).splitlines() if line.startswith("pulsed_node_")
    ]
    pages = pages_of(store)
    sums = asyncio.create_task(asked(pages, "daemon", NOW))
    for _ in range(10):
        await asyncio.sleep(0)
    store.targets[299].accept(tick(busy_gpus(3, 299, "node299")), NOW)
    group = await asked(pages, "nodes/node299", NOW + 2)
    assert not sums.done()
    assert group.count("pulsed_gpu_info{") == 3
    assert [line for line in (await sums).splitlines() if line.startswith("pulsed_node_")] == expected


def test_a_node_has_the_gpus_of_all_its_targets() -> None:
    pages = pages_of(store_of(target("a", tick([gpu(0, "n1")])), target("b", tick([gpu(1, "n1"), gpu(0, "n1")]))))
    assert part_of(pages, "nodes/n1").count("pulsed_gpu_info{") == 2
    assert pages.parts.part("nodes/n2", NOW) is None


def test_a_target_keeps_its_group() -> None:
    store = store_of(*map(exporter, range(2 * GROUP_TARGETS + 1)))
    parts = PageParts(store)

    def groups(now: float) -> dict[str, set[str]]:
        names = [name for name in parts.names("group", now) if name != "daemon"]
        found = {name: part for name in names if (part := parts.part(name, now))}
        return {name: {each.name for each in part.targets or ()} for name, part in found.items()}

    before = groups(0.0)
    assert [len(names) for names in before.values()] == [GROUP_TARGETS, GROUP_TARGETS, 1]
    gone, kept = store.targets[0], store.targets[1:]
    kept.reverse()
    store.replace([target("new"), *kept])
    after = groups(0.5)
    assert after["groups/0"] == before["groups/0"] - {gone.name} | {"new"}
    assert {name: after[name] for name in ("groups/1", "groups/2")} == {
        name: before[name] for name in ("groups/1", "groups/2")
    }
    store.replace(kept[:5])
    assert list(groups(0.6)) == ["groups/2", "groups/1"]


def test_a_part_follows_its_targets() -> None:
    store = store_of(exporter(1), exporter(2))
    pages = pages_of(store)
    assert part_of(pages, "nodes/node1").count("pulsed_gpu_info{") == 2
    store.targets[0].accept(tick(busy_gpus(3, 1, "node1")), NOW)
    assert part_of(pages, "nodes/node1", NOW + 0.1).count("pulsed_gpu_info{") == 3
    store.targets[1].accept(tick([gpu(0, "node1"), gpu(7, "node1")]), NOW + 0.1)
    assert part_of(pages, "nodes/node1", NOW + 2).count("pulsed_gpu_info{") == 4, "its node is another"
    assert part_of(pages, "nodes/node1", NOW + 10.05).count("pulsed_gpu_info{") == 2, "the first is stale"


@pytest.mark.parametrize("interval", [15, 60])
def test_a_new_counter_of_a_part_is_at_zero_for_two_of_its_scrapes(interval: int) -> None:
    """Other parts are scraped between; after a change of the forms, each part has its values at once."""
    scrapes, nodes = 2, [f"node{number}" for number in range(5)]
    store = store_of(*map(target, nodes))
    pages = pages_of(store, PageSettings(catalog("lean")))

    def scrape(round: int, *events: tuple[int, int]) -> set[tuple[str, ...]]:
        found = set()
        for number, (node, each) in enumerate(zip(nodes, store.targets, strict=True)):
            now = round * interval + number * interval / len(nodes)
            each.accept(tick([gpu(0, node, SETTLED._replace(health=Health("ok", 1.0, (), xid_events=events)))]), now)
            page = part_of(pages, f"nodes/{node}", now + 2)
            found.add(tuple(re.findall(r"pulsed_gpu_xid_events_total\{.*\} (.*)", page)))
        return found

    assert [scrape(round) for round in range(3)] == [{()}] * 3
    seen = [scrape(round, (79, 2)) for round in range(3, 4 + scrapes)]
    assert seen == [{("0",)}] * scrapes + [{("2",)}]
    pages.configure(PageSettings(catalog("lean", exclude=["pulsed_gpu_power_watts"])))
    assert scrape(4 + scrapes, (79, 2), (13, 1)) == {("2", "1")}
    assert scrape(5 + scrapes, (79, 2), (13, 1), (31, 1)) == {("2", "1", "0")}
