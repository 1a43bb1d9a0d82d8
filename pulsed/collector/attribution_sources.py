"""Makes attribution sources from the configuration, in the order of precedence."""

from __future__ import annotations

from collections.abc import Sequence

from pulsed.attribution.gpu_processes import GpuProcessTable, ProcessOwners
from pulsed.attribution.kubelet import Kubelet
from pulsed.attribution.mapping_directory import MappingDirectory, boot_time
from pulsed.attribution.slurm_queue import SlurmQueue
from pulsed.attribution.source import AttributionSource
from pulsed.configuration import Config

SYNTHETIC = ("replay", "demo")
"""Kinds of sources whose GPUs are not those of this host."""


def attribution_sources(config: Config, processes: GpuProcessTable) -> Sequence[AttributionSource]:
    """Return the attribution sources of this host; none where the GPUs are not real. Nothing is read yet.

    Args:
        processes: has those that ticks list.
    """
    if config.source.kind in SYNTHETIC:
        return ()
    jobs, socket, booted = config.attribution.jobs, config.attribution.kubelet.socket, boot_time()
    kubelet = [Kubelet(socket)] if socket != "off" else []
    directories = [
        MappingDirectory(path, jobs.interval, booted, SlurmQueue(jobs.squeue) if jobs.squeue != "off" else None)
        for path in dict.fromkeys(jobs.directories)
    ]
    own = [ProcessOwners(processes)] if config.attribution.process_owners else []
    return [*kubelet, *directories, *own]
