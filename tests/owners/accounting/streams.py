"""Streams of ticks with owners, through Compute and the accounting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.layer import ComputeLayer
from pulsed.compute.settings import ComputeSettings, RealUtilizationSettings
from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device
from pulsed.model.owner import Owner, Owners, Ownership, OwnerUses
from pulsed.model.raw_tick import Dialect, Layout
from pulsed.model.tick import Tick
from pulsed.model.vocabulary import Reading
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.counter_vector import value
from pulsed.owners.accounting.owner_roster import OwnerChange
from tests.compute.streams import DAY, GPU, OTHER, sample


def job(id: str, begin: float | None = None) -> Owner:
    return Owner("slurm_job", id, None if begin is None else Unix(begin))


A, B, C = job("a"), job("b"), job("c")


SETTINGS = ComputeSettings(real_utilization=RealUtilizationSettings(histogram=()))


class Node:
    """A node whose GPUs have owners: ticks go through Compute and the accounting."""

    def __init__(
        self,
        interval: float = 1.0,
        accounting: OwnerAccounting | None = None,
        table: GpuTable | None = None,
        target: str = "test",
        dialect: Dialect = "dmon",
    ) -> None:
        self.layout = Layout(dialect, ())
        self.interval, self.target = interval, target
        self.ended: list[OwnerAccount] = []
        self.accounting = accounting or OwnerAccounting(on_end=self.ended.append)
        self.layer = ComputeLayer(table or GpuTable(SETTINGS))
        self.clock = 0.0
        self.wall = DAY
        self.tick: Tick | None = None

    def sees(
        self,
        *gpus: tuple[Owners | None, Reading],
        after: float | None = None,
        devices: Sequence[Device] = (GPU, OTHER),
        passing: Mapping[int, Owners] | None = None,
        uses: Mapping[int, OwnerUses] | None = None,
    ) -> Sequence[OwnerChange]:
        """Take a tick in which the first GPUs have these owners and readings."""
        self.clock += self.interval if after is None else after
        readings = [reading for _, reading in gpus]
        given = sample(self.clock, *readings, devices=devices, interval=self.interval, time=self.wall + self.clock)
        given.raw = replace(given.raw, target=self.target, layout=self.layout)
        for at, (owners, _) in enumerate(gpus):
            given.gpus[at].ownership = Ownership(owners, (uses or {}).get(at, {}), (passing or {}).get(at, ()))
        self.tick = self.layer.compute(given)
        return self.accounting.add(self.tick)

    def running(self, owner: Owner) -> OwnerAccount:
        return next(each for each in self.accounting.running if each.owner.key == owner.key)


def seconds(account: OwnerAccount, part: str = "estimate", name: str = "observed_seconds", state: str = "") -> float:
    """A counter of a part of an account, over all of its GPUs."""
    return sum(value(getattr(each, part), name, state) or 0.0 for each in account.gpus.values())
