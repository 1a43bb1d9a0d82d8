"""The demo's second scene: eight nodes with eight GPUs each, with the names and troubles of a shared cluster.

Owners are pods of Deployments, StatefulSets and a Job, Slurm jobs on several nodes, and the processes of a user. A GPU
falls off the bus, one is hot, a rank is slow, a Deployment and notebooks hold idle GPUs, and a node stops answering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pulsed.model.owner import Owner, Owners, pod
from pulsed.reader.demo.scenes import (
    MigSlice,
    Scene,
    burn_in,
    data_loading,
    forgotten,
    inference,
    simulation,
    training,
    unused,
)
from pulsed.reader.demo.simulated_gpu import uuid_of

NODES = tuple(f"gpu-node-{number:02d}.hpc.example.com" for number in range(1, 9))
SILENT_NODE = NODES[7]
"""The node that stops answering."""

SILENT_AFTER = 20.0
LOST_AT = 15.0
"""Seconds after the start: the node stops answering, and the GPU falls off the bus."""

HOT_CELSIUS = 88.0
"""Above the highest operating temperature, below the slowdown by hardware."""

PERIOD = 120.0
GPUS_PER_NODE = 8


class _Work(NamedTuple):
    """Owners that do the same work on GPUs, which are given as indexes by the number of the node."""

    owners: Owners
    scene: Scene
    gpus: Mapping[int, Sequence[int]]


def _job(number: str, user: str, account: str, name: str) -> Owners:
    return (Owner("slurm_job", number, user=user, account=account, partition="h100", name=name),)


def _pod(kind: str, namespace: str, workload: str, suffix: str, container: str) -> Owners:
    named = pod(namespace, f"{workload}-{suffix}", container)
    return (replace(named, workload=workload, workload_kind=kind),)


_PRETRAIN = _job("48213", "achen", "nlp", "llm-pretrain")
_CHAT = ("Deployment", "inference-production", "chat-llama-3-70b-instruct")
_SEARCH = ("Deployment", "inference-production", "search-embeddings-multilingual")
_TUNE = ("Job", "research", "llm-finetune-customer-support-v2")
_NOTEBOOK = ("StatefulSet", "data-science", "jupyter-singleuser")
_SPEECH = ("StatefulSet", "speech", "asr-whisper")
_TRIALS = tuple(Owner("process", str(21400 + 7 * at), user="mlee", name="python3") for at in range(16))

_TRAIN, _SERVE, _HOLD = (Scene(workload, period=PERIOD) for workload in (training, inference, forgotten))
_SOLVE, _LOAD, _FREE = (Scene(workload, period=PERIOD) for workload in (simulation, data_loading, unused))

_WORK: tuple[_Work, ...] = (
    _Work(_PRETRAIN, _TRAIN, {1: range(8), 2: (0, 1, 2, 4, 5, 6, 7)}),
    _Work(_PRETRAIN, replace(_TRAIN, pace=0.55), {2: (3,)}),
    _Work(_pod(*_TUNE, "0-x0z9k", "trainer"), _TRAIN, {3: range(4)}),
    _Work(_pod(*_TUNE, "1-7hq2m", "trainer"), _TRAIN, {3: (4, 6, 7)}),
    _Work(_pod(*_TUNE, "1-7hq2m", "trainer"), replace(_TRAIN, lost_at=LOST_AT), {3: (5,)}),
    _Work(_pod(*_CHAT, "7d9f8c6b5d-x2k7q", "vllm"), _SERVE, {4: (0, 1)}),
    _Work(_pod(*_CHAT, "7d9f8c6b5d-m4tzc", "vllm"), _SERVE, {4: (2, 3)}),
    _Work(_pod(*_CHAT, "7d9f8c6b5d-p9w5r", "vllm"), _HOLD, {4: (4, 5)}),
    _Work(_pod(*_SEARCH, "6b5f7c8d9-p4wzn", "embedder"), _LOAD, {4: (6,)}),
    _Work(_pod(*_NOTEBOOK, "0", "notebook"), _HOLD, {5: (2, 3)}),
    _Work(_pod(*_NOTEBOOK, "1", "notebook"), _HOLD, {5: (4, 5)}),
    _Work(_pod(*_NOTEBOOK, "2", "notebook"), _SOLVE, {5: (6,)}),
    _Work(_job("48301", "bschmidt", "climate", "icon-r2b9"), _SOLVE, {6: range(6), 7: range(4)}),
    _Work(
        _job("48277_3", "cgarcia", "vision", "sweep"),
        Scene(burn_in, period=PERIOD, heat=lambda _: HOT_CELSIUS),
        {6: (6,)},
    ),
    _Work(_TRIALS, _SERVE, {7: (4,)}),
    _Work(_job("48290", "dkumar", "nlp", "rlhf-ppo"), _TRAIN, {8: range(8)}),
)

_PARTITIONED = 5
"""Number of the node whose first two GPUs have MIG instances."""

_SLICES: Mapping[int, Sequence[tuple[MigSlice, Owners]]] = {
    0: [
        (MigSlice(str(at + 7), "1g.10gb", 1 / 8, inference if at < 5 else unused), owners)
        for at, owners in enumerate([_pod(*_SPEECH, str(at), "worker") if at < 5 else () for at in range(7)])
    ],
    1: [
        (MigSlice("1", "3g.40gb", 1 / 2, inference), _pod(*_SPEECH, "5", "worker")),
        (MigSlice("2", "3g.40gb", 1 / 2, unused), ()),
    ],
}


def scenes_of(node: int) -> tuple[Scene, ...]:
    """Return what the GPUs of the node at this index do."""
    scenes = [_FREE] * GPUS_PER_NODE
    for work in _WORK:
        for gpu in work.gpus.get(node + 1, ()):
            scenes[gpu] = work.scene
    if node + 1 == _PARTITIONED:
        for gpu, slices in _SLICES.items():
            scenes[gpu] = replace(_SERVE, slices=tuple(each for each, _ in slices))
    return tuple(scenes)


def cluster_owners() -> Iterator[tuple[str, Owners]]:
    """Yield the owners of each GPU and MIG instance that has any, by its key."""
    for work in _WORK:
        for node, gpus in work.gpus.items():
            for gpu in gpus:
                yield uuid_of(GPUS_PER_NODE * (node - 1) + gpu).lower(), work.owners
    for gpu, slices in _SLICES.items():
        board = uuid_of(GPUS_PER_NODE * (_PARTITIONED - 1) + gpu).lower()
        for each, owners in slices:
            if owners:
                yield f"{board}/{each.id}", owners
