"""The energy of boards that are split by MIG, divided among their instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pulsed.compute.mig_rollup import shares_of
from pulsed.model.gpu import BoardKey, GpuKey
from pulsed.model.tick import Tick
from pulsed.owners.accounting.accounted_gpu import AccountedGpu
from pulsed.owners.accounting.counter_vector import added, energy_of, increase, observed, total, value


def divide_board_energy(tick: Tick, gpus: Mapping[GpuKey, AccountedGpu]) -> None:
    """Divide the energy of each split board since the tick before among its instances with owners, otherwise among all,
    by compute slices.

    No tool measures the energy of an instance. If only some instances have owners, these have all of it. What cannot be
    divided has no owner.
    """
    instances = _instances(gpus.values())
    for row in tick.gpus:
        board, counters = gpus.get(row.device.entity.key), row.result.counters
        if not row.is_split or board is None or board.row is not row or board.base is None:
            continue
        gained = increase(board.base, counters)
        board.start(counters, row.reading)
        joules = total(gained, "class_energy_joules")
        if joules is None:
            continue
        of_board = instances.get(row.device.entity.board, [])
        used = [gpu for gpu in of_board if gpu.owners] or of_board
        slices = [shares_of(gpu.device.entity.mig_profile, gpu.device.model).slices for gpu in used]
        seconds, divided = observed(gained) - (value(gained, "energy_unknown_seconds") or 0.0), 0.0
        for gpu, part in zip(used, slices, strict=True):
            if part is not None and None not in slices:
                divided += gpu.add_board_energy(joules, part / sum(filter(None, slices)), seconds)
        board.free = added(board.free, energy_of(gained, max(joules - divided, 0.0), 0.0))


def _instances(gpus: Iterable[AccountedGpu]) -> Mapping[BoardKey, list[AccountedGpu]]:
    """Return the MIG instances that are listed, by board."""
    instances: dict[BoardKey, list[AccountedGpu]] = {}
    for gpu in gpus:
        if gpu.device.entity.kind == "mig" and gpu.missed is None:
            instances.setdefault(gpu.device.entity.board, []).append(gpu)
    return instances
