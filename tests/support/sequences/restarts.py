"""Random sequences in which pulsed is restarted between two samples, next to the same sequences without a restart."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.errors import NoGpus
from pulsed.model.clocks import Unix
from pulsed.model.health import Health
from tests.support.sequences.laws import DAY
from tests.support.sequences.world import Step, World, raw_tick

STEPS = 30
"""Moments of a sequence."""

EXEMPT = ("telemetry",)
"""Checks that start again: fields that were blank before are not known, nor is how old a repeated page is."""

Healths = Mapping[str, Health]
"""By UUID."""


def changed_by_restarts(seed: int) -> Iterator[str]:
    """Yield the verdicts about a random node that restarts of pulsed change.

    A state that ends with time may end one sample earlier or later.
    """
    rng = random.Random(f"restarts {seed}")
    world = World(seed, exporters=1)
    steps = list(world.steps(STEPS))
    restarts = {rng.randrange(2, STEPS) for _ in range(rng.choice((1, 1, 2)))}
    expected, got = _healths(steps, world.interval, set()), _healths(steps, world.interval, restarts)
    differed = dict[tuple[str, str], str]()
    for at, (step, healths, others) in enumerate(zip(steps, expected, got, strict=True)):
        before, differed = differed, {}
        place = f"seed {seed}, restarts {sorted(restarts)}, step {at}"
        for uuid, health in healths.items():
            other = others.get(uuid)
            if other is None:
                yield f"{place}: {uuid} is not shown"
                continue
            if health.xid_events != other.xid_events:
                yield f"{place}: other counts of XIDs of {uuid}: {set(health.xid_events) ^ set(other.xid_events)}"
            if any(shown.is_repeated for shown in step.shown.values()):
                continue
            for check, twin in zip(health.checks, other.checks, strict=True):
                if check.state != twin.state and check.id not in EXEMPT:
                    differed[uuid, check.id] = f"{check.id} of {uuid} is {twin.state}, not {check.state}"
        for key in before.keys() & differed.keys():
            yield f"{place}: {differed[key]}"


def _healths(steps: list[Step], interval: float, restarts: set[int]) -> Iterator[Healths]:
    """Yield the health of all GPUs at each step, with restarts of pulsed before some of them."""
    pipeline = Pipeline(GpuTable(), "node-1")
    for at, step in enumerate(steps):
        time = Unix(DAY + step.clock)
        if at in restarts:
            saved = json.loads(json.dumps(pipeline.health_evaluator.dump()))
            pipeline = Pipeline(GpuTable(), "node-1")
            pipeline.health_evaluator.restore(saved, time)
        rows = []
        for target, shown in step.shown.items():
            try:
                rows += pipeline.process(raw_tick(target, shown, step.clock, time, interval)).gpus
            except NoGpus:
                continue
        yield {row.device.entity.uuid: row.result.health for row in rows}
