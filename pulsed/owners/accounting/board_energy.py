"""The energy of boards that are split by MIG, divided among their instances."""

from __future__ import annotations

from collections.abc import Iterable

from pulsed.compute.mig_rollup import shares_of
from pulsed.model.counters import CounterSnapshot
from pulsed.model.gpu import BoardKey
from pulsed.model.tick import Tick
from pulsed.owners.accounting.accounted_gpu import AccountedGpu
from pulsed.owners.accounting.counter_vector import increase, observed, total, value


class BoardEnergyDivision:
    """Divides the energy of each board among its instances with owners, otherwise among all, by compute slices.

    No tool measures the energy of an instance. If only some instances have owners, these have all of it.
    """

    def __init__(self) -> None:
        self._boards: dict[BoardKey, CounterSnapshot] = {}  # in the newest tick

    def add_sample(self, tick: Tick, gpus: Iterable[AccountedGpu]) -> None:
        """Divide the energy since the tick before among the GPUs of a target."""
        instances: dict[BoardKey, list[AccountedGpu]] = {}
        for gpu in gpus:
            if gpu.device.entity.kind == "mig" and gpu.missed is None:
                instances.setdefault(gpu.device.entity.board, []).append(gpu)
        for row in tick.gpus:
            if not row.is_split or not row.is_listed:
                continue
            board, counters = row.device.entity.board, row.result.counters
            before, self._boards[board] = self._boards.get(board), counters
            of_board = instances.get(board, [])
            used = [gpu for gpu in of_board if gpu.owners] or of_board
            slices = [shares_of(gpu.device.entity.mig_profile, gpu.device.model).slices for gpu in used]
            if before is None or before.created != counters.created or not used or None in slices:
                continue
            gained = increase(before, counters)
            joules, unknown = total(gained, "class_energy_joules"), value(gained, "energy_unknown_seconds") or 0.0
            for gpu, part in zip(used, slices, strict=True):
                if joules is not None and part is not None:
                    share = part / sum(filter(None, slices))
                    gpu.add_board_energy(joules, share, observed(gained) - unknown)
