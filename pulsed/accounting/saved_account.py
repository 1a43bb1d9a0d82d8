"""Accounts as JSON, for files and for the memory of ended owners. Counters are by name, as versions may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from pulsed.accounting.account import (
    VIOLATIONS,
    Extremes,
    GpuAccount,
    OwnerAccount,
    OwnerEvent,
    gpu_key,
)
from pulsed.accounting.counter_vector import dump, load
from pulsed.attribution.owner import Owner, OwnerKind
from pulsed.translate.tick import Device, Entity

_VECTORS = ("alone", "shared", "share", "boundary")

SavedAccount = Mapping[str, Any]


def dump_account(account: OwnerAccount) -> SavedAccount:
    """Return an account as JSON."""
    return {
        "owner": {name: value for name, value in asdict(account.owner).items() if value},
        "begin": account.begin,
        "first_seen": account.first_seen,
        "last_seen": account.last_seen,
        "end": account.end,
        "gpus": [_dump_gpu(each) for each in account.gpus.values()],
    }


def load_account(saved: object) -> OwnerAccount:
    """Return an account from JSON; it has no GPU until its owner is seen again.

    Raises:
        ValueError: it is not an account.
    """
    try:
        found: Any = saved
        given = dict(found["owner"])
        labels = tuple([(str(name), str(value)) for name, value in given.pop("labels", ())])
        owner = Owner(**given, labels=labels)
        if owner.kind not in get_args(OwnerKind):
            raise ValueError(f"{owner.kind!r} is not a kind of owner")
        account = OwnerAccount(
            owner, float(found["begin"]), float(found["first_seen"]), float(found["last_seen"]), found["end"]
        )
        for each in map(_load_gpu, found["gpus"]):
            account.gpus[gpu_key(each.device)] = each
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an account: {error!r}") from None
    return account


def _dump_gpu(account: GpuAccount) -> SavedAccount:
    device = account.device
    return {
        "device": {name: value for name, value in asdict(device.entity).items() if value}
        | {name: value for name in ("model", "mig_uuid") if (value := getattr(device, name))},
        "since": account.since,
        "held": account.held,
        "sharers": account.sharers,
        "memory_bytes": account.memory_bytes,
        **{name: counters for name in _VECTORS if (counters := dump(getattr(account, name)))},
        "extremes": asdict(account.extremes),
        "bridged_joules": account.bridged_joules,
        "energy": account.energy,
        "violations": dict(zip(VIOLATIONS, account.violations, strict=True)),
        "events": account.events,
    }


def _load_gpu(saved: Mapping[str, Any]) -> GpuAccount:
    named: dict[str, Any] = dict(saved["device"])
    model, mig_uuid = str(named.pop("model", "")), str(named.pop("mig_uuid", ""))
    account = GpuAccount(Device(Entity(**({"gpu": ""} | named)), model, mig_uuid=mig_uuid))
    account.since, account.held, account.sharers = saved["since"], float(saved["held"]), int(saved["sharers"])
    account.alone, account.shared, account.share, account.boundary = (load(saved.get(name, {})) for name in _VECTORS)
    account.memory_bytes = saved.get("memory_bytes")
    account.extremes = Extremes(**saved["extremes"])
    account.bridged_joules, account.energy = float(saved["bridged_joules"]), _pair(saved["energy"])
    account.bridge = account.energy
    account.violations = [saved["violations"].get(name) for name in VIOLATIONS]
    account.events = [OwnerEvent(*event) for event in saved["events"]]
    return account


def _pair(saved: Sequence[float] | None) -> tuple[float, float] | None:
    return None if saved is None else (float(saved[0]), float(saved[1]))
