"""What the document of an account shows of findings: those that are not judged, and how its GPUs stopped to work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pulsed.compute.sample import GAP_INTERVALS
from pulsed.json_text import moment_of
from pulsed.model.vocabulary import Value
from pulsed.owners.findings.findings import STEP_SECONDS
from pulsed.owners.findings.hangs import Stop, StopState
from pulsed.present.job_numbers import Account, gpu_name


class Unjudged(NamedTuple):
    """A finding about a running job that is not judged, for want of what `missing` names."""

    finding: str
    missing: str


def unjudged(account: Account) -> Iterator[Unjudged]:
    """Yield the findings about a running job that are not judged."""
    gpus = account["gpus"] if account["state"] == "running" else ()
    findings = [
        each for gpu in gpus for each in gpu.get("findings", {}).items()
    ]  # absent in documents of older daemons
    yield from dict.fromkeys(
        Unjudged(name, verdict["missing"]) for name, verdict in findings if verdict["state"] == "not_judged"
    )


def stops_of(account: Account) -> Iterator[Stop]:
    """Yield how the GPUs of a job that hangs stopped to work."""
    newest = max((_seconds(gpu, "last_sample_time") or 0.0 for gpu in account["gpus"]), default=0.0)
    for gpu in account["gpus"]:
        last_sample = _seconds(gpu, "last_sample_time")
        if last_sample is None:
            continue
        interval = gpu["observed_seconds"] / max(gpu["samples"], 1)
        state: StopState = "idle" if gpu["idle_runs"]["last_seconds"] > 0.0 else "spins"
        if newest - last_sample > max(STEP_SECONDS, GAP_INTERVALS * interval):
            state = "silent"
        name = gpu_name(gpu, with_node=True)
        yield Stop(name, gpu["node"], _seconds(gpu, "last_work_time"), last_sample, interval, state)


def _seconds(gpu: Account, name: str) -> Value:
    """Return a time of a GPU as Unix time; None in documents of older daemons, which lack it."""
    return moment_of(gpu[name]).timestamp() if gpu.get(name) else None
