"""A simulated node: readings and time go in, health comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pulsed.compute.gpu_table import GpuTable
from pulsed.compute.health.inputs import INPUT_POSITION, GpuInputs
from pulsed.compute.health.settings import HealthSettings
from pulsed.compute.health_evaluator import HealthEvaluator
from pulsed.compute.settings import ComputeSettings
from pulsed.compute.target_gpus import Tracker
from pulsed.model.clocks import EPOCH, Monotonic, Unix
from pulsed.model.gpu import Device, Entity
from pulsed.model.health import CheckState, Health, HealthChange, State, XidEvent
from pulsed.model.host import HostFacts, PciGpu
from pulsed.model.owner import Owners
from pulsed.model.raw_tick import UNKNOWN_EPOCH, KernelEvent, RawTick
from pulsed.model.tick import Extras
from pulsed.model.vocabulary import NOTHING, POSITION, Reading
from tests.compute.streams import DAY, NO_SERIES
from tests.support.ticks import tick_of

MODEL = "NVIDIA H100 80GB HBM3"
GPU = Device(Entity("gpu", "0", "GPU-0", node="n"), model=MODEL)
OTHER = Device(Entity("gpu", "1", "GPU-1", node="n"), model=MODEL, pci_bus_id="00000000:2B:00.0")
INSTANCE = Device(Entity("mig", "0", "GPU-0", "1", "1g.10gb", "n"))


def give(inputs: GpuInputs, **values: float | None) -> None:
    """Set the inputs of rules: of those that are not given, readings are missing and facts stay as they are."""
    reading = Reading(**{name: value for name, value in values.items() if name in POSITION})
    all_values = [*reading, *inputs.values[len(NOTHING) :]]
    for name in values.keys() - POSITION.keys():
        all_values[INPUT_POSITION[name]] = values[name]
    inputs.values = tuple(all_values)


class MissingGpu(NamedTuple):
    state: object
    device: Device
    since: float
    last_seen: float
    health: Health
    seconds: Mapping[State, float]


class HealthTick(NamedTuple):
    healths: tuple[Health, ...]
    missing: tuple[MissingGpu, ...]
    changes: tuple[HealthChange, ...] = ()
    clock_event_shares: tuple[tuple[tuple[str, float], ...], ...] = ()
    xids: tuple[XidEvent, ...] = ()
    seconds: tuple[Mapping[State, float], ...] = ()


class Sim:
    """One node and its evaluator; time moves with every tick."""

    def __init__(
        self, settings: HealthSettings | None = None, interval: float = 1.0, devices: Sequence[Device] = (GPU,)
    ) -> None:
        self.settings = settings or HealthSettings()
        self._start()
        self.interval = interval
        self.devices = tuple(devices)
        self.clock = 1000.0
        self.time = DAY
        self.epoch = UNKNOWN_EPOCH
        self.layout = NO_SERIES
        self.kernel_events: tuple[KernelEvent, ...] | None = None
        self.pci_drivers: Mapping[str, str] = {}
        self.is_virtual: bool | None = None
        self.lost: frozenset[str] = frozenset()
        self.owners: Mapping[int, Owners | None] = {}
        self.last: HealthTick | None = None

    def tick(
        self,
        *readings: Mapping[str, float | None],
        extras: Extras | None = None,
        after: float | None = None,
        devices: Sequence[Device] | None = None,
        kernel_events: tuple[KernelEvent, ...] | None = None,
    ) -> HealthTick:
        """Take one sample; by default of the first GPU alone."""
        step = self.interval if after is None else after
        self.clock += step
        self.time += step
        if devices is not None and tuple(devices) != self.devices:
            self.devices = tuple(devices)
        given = [Reading(**reading) for reading in readings] or [Reading()]
        given += [Reading()] * (len(self.devices) - len(given))
        tick = tick_of(
            RawTick("test", Unix(self.time), Monotonic(self.clock), self.interval, self.layout, (), lost=self.lost),
            self.devices,
            tuple(given[: len(self.devices)]),
            owners=self.owners,
            extras={0: extras} if extras else {},
            kernel_events=self.kernel_events if kernel_events is None else kernel_events,
            epoch=self.epoch,
            lists_gpus=bool(self.devices),
            host=HostFacts(
                EPOCH,
                tuple([PciGpu(address, driver, True) for address, driver in self.pci_drivers.items()]),
                is_virtual=self.is_virtual,
            ),
        )
        tracked = self.tracker.track(tick)
        for state in tracked.states:
            state.row.reading = state.unmeasured.apply(state.row.reading, state.row.device.model)
        self.health_evaluator.evaluate(tick, tracked)
        boards = [self.table.health_of(state.board) for state in tracked.states]
        self.last = HealthTick(
            tuple(gpu.health for gpu in boards),
            tuple(
                MissingGpu(
                    state,
                    gpu.device,
                    gpu.reachability.missed_since or tick.time,
                    gpu.reachability.last_seen,
                    gpu.health,
                    dict(gpu.shown_seconds),
                )
                for state in tracked.missing
                if (gpu := self.table.health_of(state)).is_missing or state.key in self.health_evaluator._named
            ),
            tick.health_changes,
            tuple(gpu.inputs.clock_events.shares for gpu in boards),
            tick.xids,
            tuple(dict(gpu.shown_seconds) for gpu in boards),
        )
        return self.last

    def health(self, extras: Extras | None = None, /, after: float | None = None, **values: float | None) -> Health:
        return self.tick(values, extras=extras, after=after).healths[0]

    def check(
        self, id_: str, extras: Extras | None = None, /, after: float | None = None, **values: float | None
    ) -> CheckState:
        return self.health(extras, after=after, **values).check(id_)

    def run(self, seconds: float, id_: str, extras: Extras | None = None, /, **values: float | None) -> CheckState:
        """Take samples of the same readings for so long."""
        state = None
        for _ in range(max(1, round(seconds / self.interval))):
            state = self.check(id_, extras, **values)
        assert state is not None
        return state

    def restart(self, down: float = 10.0) -> None:
        """Stop the daemon and start it again: the clock begins anew, the file comes back."""
        document = json.loads(json.dumps(self.health_evaluator.dump(), allow_nan=False))
        self._start()
        self.time += down
        self.clock = 5.0
        self.health_evaluator.restore(document, Unix(self.time))

    def _start(self) -> None:
        self.table = GpuTable(ComputeSettings(health=self.settings))
        self.tracker = Tracker(self.table)
        self.health_evaluator = HealthEvaluator(self.table, self.tracker)
