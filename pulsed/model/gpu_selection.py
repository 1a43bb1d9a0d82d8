"""Selection of GPUs, by `--gpus` or the environment of a job. Pure functions; independent of devices.

A job's indexes are not always the node's: in a cgroup, CUDA counts from 0 what the job may see. They are turned into
Slurm's numbers, which are the node's (SLURM_JOB_GPUS in srun's manual page).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pulsed.errors import UsageError


@dataclass(frozen=True, slots=True)
class SelectableGpu:
    """A GPU or MIG instance that may be selected.

    Attributes:
        gpu: the node's index of the GPU.
        uuid: of the GPU, or of a MIG instance's GPU; empty when unknown, as the others.
        mig_uuid: of the MIG instance.
        mig_id: NVML's number of the MIG instance; empty for a whole GPU.
    """

    gpu: str
    uuid: str = ""
    mig_uuid: str = ""
    mig_id: str = ""

    @property
    def name(self) -> str:
        """As `--gpus` takes it."""
        return f"{self.gpu}:{self.mig_id}" if self.mig_id else self.gpu or self.uuid


@dataclass(frozen=True, slots=True)
class GpuSelection:
    """Some GPUs and MIG instances. The selection of a GPU includes its instances.

    Attributes:
        everything: all of them; the rest is then empty.
        gpus: indexes on the node.
        instances: index of the GPU and NVML's number of the instance.
        uuids: UUIDs of GPUs and MIG instances, or beginnings of them, in lower case.
        origin: `--gpus`, or the name of the variable; empty for the default.
    """

    everything: bool = False
    gpus: frozenset[str] = frozenset()
    instances: frozenset[tuple[str, str]] = frozenset()
    uuids: frozenset[str] = frozenset()
    origin: str = ""

    def among(self, candidates: Sequence[SelectableGpu]) -> tuple[bool, ...]:
        """Return for each candidate whether it is selected. The beginning of several UUIDs means none, as in CUDA."""
        if self.everything:
            return (True,) * len(candidates)
        full_uuids = {uuid.lower() for one in candidates for uuid in (one.uuid, one.mig_uuid) if uuid}
        meant = {uuid for prefix in self.uuids for uuid in _unique(prefix, full_uuids)}
        return tuple(self._takes(one, meant) for one in candidates)

    def unmatched(self, candidates: Sequence[SelectableGpu]) -> tuple[str, ...]:
        """Return the selected GPUs that are not among the candidates, in the format of `--gpus`."""
        full_uuids = {uuid.lower() for one in candidates for uuid in (one.uuid, one.mig_uuid) if uuid}
        legacy = {f"mig-{one.uuid.lower()}/{one.mig_id}/" for one in candidates if one.mig_id}
        return (
            *sorted(self.gpus - {one.gpu for one in candidates}, key=int),
            *(f"{gpu}:{mig}" for gpu, mig in sorted(self.instances - {(one.gpu, one.mig_id) for one in candidates})),
            *sorted(u for u in self.uuids if not _unique(u, full_uuids) and not u.startswith(tuple(legacy))),
        )

    def _takes(self, one: SelectableGpu, uuids: set[str]) -> bool:
        if one.gpu in self.gpus or not uuids.isdisjoint((one.uuid.lower(), one.mig_uuid.lower())):
            return True
        if not one.mig_id:
            return False
        # Drivers before R470 name an instance by its GPU's UUID and the two numbers.
        legacy = f"mig-{one.uuid.lower()}/{one.mig_id}/"
        return (one.gpu, one.mig_id) in self.instances or any(uuid.startswith(legacy) for uuid in self.uuids)


EVERYTHING = GpuSelection(everything=True)

_INDEX = re.compile(r"[0-9]{1,6}")
_RANGE = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")
_INSTANCE = re.compile(r"([0-9]{1,6}):([0-9]{1,6})")
_UUID = re.compile(r"(GPU|MIG)-[0-9A-Fa-f][0-9A-Fa-f-]*|MIG-GPU-[0-9A-Fa-f-]+/\d+/\d+", re.IGNORECASE)
_MAX_GPUS = 1024

_NOTHING = frozenset({"", "none", "nodevfiles"})
"""No GPU. `NoDevFiles` is Slurm's word in CUDA_VISIBLE_DEVICES for a job without any."""


def parse(text: str, origin: str = "--gpus") -> GpuSelection:
    """Read a list such as `0,2-3`, `GPU-1b2c`, `MIG-4f…`, `0:7` (GPU and MIG instance), `all`, `none`.

    Raises `UsageError` if a part of the text has none of these forms.
    """
    if text.strip().lower() == "all":
        return GpuSelection(everything=True, origin=origin)
    if text.strip().lower() in _NOTHING:
        return GpuSelection(origin=origin)
    parts, sound = [part.strip() for part in text.split(",")], list(_sound(text))
    if len(sound) < len(parts):
        raise UsageError(
            f"{origin} {text!r}: {parts[len(sound)]!r} names no GPU",
            "Write indexes (0,2-3), UUIDs or their beginnings (GPU-…, MIG-…), GPU:instance (0:7), all or none",
        )
    return _selection(sound, origin)


def from_environment(environment: Mapping[str, str]) -> GpuSelection:
    """Return the GPUs of a job by its environment: the first of CUDA's, NVIDIA's and Slurm's variables that is set.

    Nonsense in a variable never raises: what comes after it does not count, which is CUDA's own rule.
    """
    slurm = _slurm(environment)
    cuda = environment.get("CUDA_VISIBLE_DEVICES")
    if cuda is not None:
        parts = list(_sound(cuda))
        if parts and all(_INDEX.fullmatch(part) for part in parts):
            parts = _on_the_node([int(part) for part in parts], [*slurm.values()])
        return _selection(parts, "CUDA_VISIBLE_DEVICES")
    nvidia = environment.get("NVIDIA_VISIBLE_DEVICES", "void").strip()
    if nvidia.lower() == "all":
        return GpuSelection(everything=True, origin="NVIDIA_VISIBLE_DEVICES")
    if nvidia.lower() not in ("", "void"):  # these two mean: whatever this container can see
        # `0:1` is the second MIG device of GPU 0, counted by the driver: not NVML's number, so the GPU stands for it.
        parts = [_INSTANCE.sub(r"\1", part) for part in _sound(nvidia)]
        return _selection(parts, "NVIDIA_VISIBLE_DEVICES")
    for name, numbers in slurm.items():
        return _selection(numbers, name)
    return EVERYTHING


def _slurm(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Slurm's numbers on this node by variable, the narrower first: a step has some of its job's GPUs."""
    numbers = {name: environment.get(name, "").strip() for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")}
    return {name: list(_expanded(_sound(text))) for name, text in numbers.items() if text}


def _on_the_node(numbers: Sequence[int], slurm: Sequence[Sequence[str]]) -> list[str]:
    """Turn CUDA's indexes into the node's indexes."""
    for allocated in slurm:
        # With devices in a cgroup CUDA counts what is allocated; without, it uses the node's numbers, and Slurm sets
        # just these. Both agree where all that is allocated is visible.
        if all(number < len(allocated) for number in numbers):
            return [allocated[number] for number in numbers]
    return [str(number) for number in numbers]


def _sound(text: str) -> Iterable[str]:
    """Return the parts of a list up to the first that is nothing (`-1`, a typing error)."""
    for part in map(str.strip, text.split(",")):
        if not (_INDEX.fullmatch(part) or _is_range(part) or _INSTANCE.fullmatch(part) or _UUID.fullmatch(part)):
            return
        yield part


def _is_range(part: str) -> bool:
    match = _RANGE.fullmatch(part)
    return match is not None and int(match[1]) <= int(match[2]) < int(match[1]) + _MAX_GPUS


def _expanded(parts: Iterable[str]) -> Iterable[str]:
    for part in parts:
        if match := _RANGE.fullmatch(part):
            yield from map(str, range(int(match[1]), int(match[2]) + 1))
        else:
            yield part


def _selection(parts: Iterable[str], origin: str) -> GpuSelection:
    singles = list(_expanded(parts))
    return GpuSelection(
        gpus=frozenset(str(int(part)) for part in singles if _INDEX.fullmatch(part)),
        instances=frozenset((str(int(m[1])), str(int(m[2]))) for part in singles if (m := _INSTANCE.fullmatch(part))),
        uuids=frozenset(part.lower() for part in singles if _UUID.fullmatch(part)),
        origin=origin,
    )


def _unique(prefix: str, uuids: Iterable[str]) -> list[str]:
    """Return the UUID that is meant: itself, or the only one that begins so."""
    matches = [uuid for uuid in uuids if uuid.startswith(prefix)]
    return [prefix] if prefix in matches else matches if len(matches) == 1 else []
