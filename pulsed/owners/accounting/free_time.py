"""The time of GPUs without an owner, as an account for reports."""

from __future__ import annotations

from collections.abc import Iterable

from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device
from pulsed.owners.accounting.account import FREE, OwnerAccount
from pulsed.owners.accounting.accounted_gpu import AccountedGpu
from pulsed.owners.accounting.counter_vector import EMPTY, CounterVector, added, observed


class FreeTime:
    """Collects the time without an owner that GPUs have counted, until it is reset."""

    def __init__(self) -> None:
        self._since: Unix | None = None
        self._forgotten: dict[str, tuple[Device, CounterVector]] = {}  # of GPUs that are gone, by node

    def begin(self, time: Unix) -> None:
        """Begin at a Unix time, unless it has begun."""
        if self._since is None:
            self._since = time

    def forget(self, gpu: AccountedGpu) -> None:
        """Keep the time of a GPU that is forgotten, as a part of its node."""
        device, free = self._forgotten.get(gpu.device.entity.node, (gpu.device, EMPTY))
        self._forgotten[device.entity.node] = device, added(free, gpu.free)

    def account(self, gpus: Iterable[AccountedGpu], time: Unix) -> OwnerAccount | None:
        """Return the account up to a Unix time; None if there was no such time."""
        parts = [*((gpu.device, gpu.free) for gpu in gpus), *self._forgotten.values()]
        parts = [part for part in parts if part[1] is not EMPTY]
        if not parts or self._since is None:
            return None
        newest = max(time, self._since)
        account = OwnerAccount(FREE, self._since, self._since, newest)
        account.elapsed = newest - self._since
        for device, counters in parts:
            on_gpu = account.on(device)
            on_gpu.alone, on_gpu.held = added(on_gpu.alone, counters), on_gpu.held + observed(counters)
        return account

    def reset(self, gpus: Iterable[AccountedGpu]) -> None:
        """Set all time to 0; the next tick begins again."""
        self._since = None
        self._forgotten.clear()
        for gpu in gpus:
            gpu.free = EMPTY
