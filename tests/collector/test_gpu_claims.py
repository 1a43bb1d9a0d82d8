"""A GPU on the pages of two exporters is taken from neither; exporters that are replaced, restarted or gone."""

from __future__ import annotations

import asyncio

import pytest

from pulsed.collector.exporter_pages import KEPT_SECONDS, GpuClaims, GpuName, gpus_of
from pulsed.errors import DuplicateGpu
from pulsed.model.clocks import Monotonic, Unix
from pulsed.model.raw_tick import RawTick
from pulsed.reader.exposition.parser import PageParser
from tests.support.waiting import SECONDS

ONE, TWO = "gpu-operator/nvidia-dcgm-exporter", "monitoring/dcgm-exporter"
A, B = GpuName("GPU-a", "0"), GpuName("GPU-b", "1")


class Claims:
    """Claims with a clock made by hand, and a pod for each target."""

    def __init__(self, *read: str, patience: float = SECONDS) -> None:
        self.now = 100.0
        self.gpus = GpuClaims(patience, lambda: self.now)
        self.gpus.expect(read, read)

    async def are_taken(self, *pages: tuple[str, frozenset[GpuName]]) -> list[bool]:
        """Claim the GPUs of several pages at the same time."""
        return list(await asyncio.gather(*(self.is_taken(target, *gpus) for target, gpus in pages)))

    async def is_taken(self, target: str, *gpus: GpuName) -> bool:
        """Claim the GPUs of a page; return whether they may be taken."""
        try:
            await self.gpus.claim(target, f"{target}-x", frozenset(gpus))
        except DuplicateGpu:
            return False
        return True


async def test_different_gpus_are_taken_from_both() -> None:
    claims = Claims(ONE, TWO)
    assert await claims.are_taken((ONE, frozenset([A])), (TWO, frozenset([B]))) == [True, True]
    assert await claims.is_taken(ONE, A)


async def test_the_same_gpu_is_taken_from_neither_and_both_are_named() -> None:
    claims = Claims(ONE, TWO)
    assert await claims.are_taken((ONE, frozenset([A, B])), (TWO, frozenset([A, B]))) == [False, False]
    with pytest.raises(DuplicateGpu) as one:
        await claims.gpus.claim(ONE, f"{ONE}-x", frozenset([A, B]))
    with pytest.raises(DuplicateGpu) as two:
        await claims.gpus.claim(TWO, f"{TWO}-y", frozenset([A, B]))
    assert f"the pods {ONE}-x and {TWO}-x both show GPU-a and 1 more: none of their GPUs is read" in str(one.value)
    assert f"the pods {ONE}-x and {TWO}-y both show" in str(two.value)
    assert "source.exporter.kubernetes.namespaces" in one.value.remedy


async def test_the_first_page_waits_until_the_other_exporter_has_been_tried() -> None:
    claims = Claims(ONE, TWO)
    first = asyncio.create_task(claims.is_taken(ONE, A))
    await asyncio.sleep(0)
    assert not first.done()
    assert not await claims.is_taken(TWO, A)
    assert not await first

    claims = Claims(ONE, TWO)
    first = asyncio.create_task(claims.is_taken(ONE, A))
    await asyncio.sleep(0)
    claims.gpus.tried(TWO)  # it did not answer
    assert await first
    assert not await claims.is_taken(TWO, A)
    assert not await claims.is_taken(ONE, A)


async def test_it_waits_no_longer_than_a_scrape_and_not_for_an_exporter_that_is_gone() -> None:
    claims = Claims(ONE, TWO, patience=0.01)
    assert await claims.is_taken(ONE, A)
    claims = Claims(ONE, TWO)
    first = asyncio.create_task(claims.is_taken(ONE, A))
    await asyncio.sleep(0)
    claims.gpus.expect([ONE], [ONE])
    assert await first


async def test_an_exporter_that_comes_later_gets_nothing_and_takes_the_gpu_from_the_first() -> None:
    claims = Claims(ONE)
    assert await claims.is_taken(ONE, A)
    claims.gpus.expect([ONE, TWO], [ONE, TWO])
    waiting = asyncio.create_task(claims.is_taken(ONE, A))
    await asyncio.sleep(0)
    assert not await claims.is_taken(TWO, A)
    assert not await waiting


async def test_a_pod_that_replaces_another_of_its_daemon_set_is_the_same_exporter() -> None:
    claims = Claims(ONE)
    await claims.gpus.claim(ONE, "gpu-operator/old", frozenset([A]))
    claims.gpus.expect([], [ONE])
    claims.gpus.expect([], [])
    claims.gpus.expect([ONE], [ONE])
    await claims.gpus.claim(ONE, "gpu-operator/new", frozenset([A]))


async def test_a_gpu_stays_that_of_an_exporter_whose_pod_restarts_or_is_replaced() -> None:
    """Else a false exporter would be read meanwhile."""
    claims = Claims(ONE, TWO)
    assert await claims.are_taken((ONE, frozenset([A])), (TWO, frozenset([A]))) == [False, False]
    claims.gpus.expect([TWO], [ONE, TWO])  # not ready
    claims.now += 3600.0
    assert not await claims.is_taken(TWO, A)
    claims.gpus.expect([TWO], [TWO])  # deleted
    claims.now += KEPT_SECONDS - 1.0
    claims.gpus.expect([TWO], [TWO])
    assert not await claims.is_taken(TWO, A)
    claims.gpus.expect([TWO], [ONE, TWO])  # replaced
    claims.now += KEPT_SECONDS
    assert not await claims.is_taken(TWO, A)
    claims.gpus.expect([TWO], [TWO])
    claims.now += KEPT_SECONDS
    assert await claims.is_taken(TWO, A), "it is settled"


async def test_a_gpu_that_moved_to_another_exporter_is_taken_from_it() -> None:
    claims = Claims(ONE, TWO)
    assert await claims.are_taken((ONE, frozenset([A, B])), (TWO, frozenset([]))) == [True, True]
    assert await claims.is_taken(ONE, B)
    assert await claims.is_taken(TWO, A)


async def test_the_last_page_of_an_exporter_that_is_gone_claims_nothing() -> None:
    claims = Claims(ONE, TWO, patience=0.01)
    claims.gpus.expect([TWO], [TWO])
    assert await claims.is_taken(ONE, A)  # it was on its way
    assert await claims.is_taken(TWO, A)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (GpuName("gpu-a", "0"), GpuName("GPU-A", "7"), True),
        (GpuName("gpu-a", "0"), GpuName("gpu-b", "0"), False),  # exporters that see one GPU each
        (GpuName("gpu-a", "0"), GpuName("", "0"), True),
        (GpuName("", "0"), GpuName("", "0"), True),
        (GpuName("", "0"), GpuName("gpu-b", "1"), False),
    ],
)
async def test_gpus_are_the_same_by_uuid_else_by_number(one: GpuName, other: GpuName, is_same: bool) -> None:
    claims = Claims(ONE, TWO)
    taken = await claims.are_taken((ONE, frozenset([one])), (TWO, frozenset([other])))
    assert taken == [not is_same] * 2


def names(*pages: str) -> list[set[GpuName]]:
    """Return the GPUs of pages of one exporter."""
    parser = PageParser()
    parsed = [parser.parse(page.encode()) for page in pages]
    return [
        set(gpus_of(RawTick("x", Unix(1.0), Monotonic(1.0), 1.0, page.layout, page.values), "node-a"))
        for page in parsed
    ]


def test_the_gpus_of_a_page() -> None:
    rows = (
        'X{gpu="0",UUID="GPU-a",Hostname="n"} 1\nY{gpu="0",UUID="GPU-a",Hostname="n"} 1\n',
        'X{gpu="1",UUID="GPU-b",GPU_I_ID="7",GPU_I_PROFILE="1g.5gb"} 1\n',
        'X{gpu="2"} 1\n',
        'X{nvlink="0",gpu="3",gpu_uuid="GPU-c"} 1\nX{cpu="0"} 1\n',
    )
    assert names("".join(rows)) == [{A, B, GpuName("", "2")}]


def test_a_gpu_that_has_left_the_page_is_not_on_it() -> None:
    zero, one = 'X{gpu="0",UUID="GPU-a"} 1\n', 'X{gpu="1",UUID="GPU-b"} 1\n'
    assert names(zero + one, one, zero + one) == [{A, B}, {B}, {A, B}]
