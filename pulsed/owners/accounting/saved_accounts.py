"""Accounts as JSON, for files and for the bounded memory of owners that have ended.

Counters are by name, as versions may differ.
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from pulsed.json_text import json_bytes
from pulsed.model.clocks import Unix
from pulsed.model.gpu import Device, Entity, EntityKind
from pulsed.model.host import JobHostUsage
from pulsed.model.owner import Owner
from pulsed.model.vocabulary import Value
from pulsed.owners.accounting.account import (
    MAX_EVENTS,
    RAISED,
    VIOLATIONS,
    FindingVerdict,
    GpuAccount,
    OwnerAccount,
    OwnerCondition,
    OwnerEvent,
)
from pulsed.owners.accounting.activity import MAX_SUM, Extremes, Moments, Timeline
from pulsed.owners.accounting.balance import Balance
from pulsed.owners.accounting.counter_vector import dump, load

SavedAccount = Mapping[str, Any]

_Moment = Annotated[Unix, Field(ge=0.0, lt=253402300800.0)]  # to the year 9999, the last one of RFC 3339
_Sum = Annotated[float, Field(ge=0.0, le=MAX_SUM)]
_Counters = dict[str, Value]  # null: not a number of JSON


@dataclass(frozen=True, slots=True)
class _SavedGpu:
    device: dict[str, str]
    since: _Moment | None
    held: _Sum
    sharers: Annotated[int, Field(ge=1)]
    extremes: Extremes
    bridged_joules: _Sum
    energy: tuple[float, _Moment] | None
    violations: dict[str, Value]
    events: Annotated[list[OwnerEvent], Field(max_length=MAX_EVENTS)]
    memory_bytes: Value = None
    conditions: list[OwnerCondition] = field(default_factory=list)
    alone: _Counters = field(default_factory=dict)
    shared: _Counters = field(default_factory=dict)
    share: _Counters = field(default_factory=dict)
    boundary: _Counters = field(default_factory=dict)
    slices: _Counters = field(default_factory=dict)
    board: _Counters = field(default_factory=dict)
    allocated: _Counters = field(default_factory=dict)
    moments: dict[str, tuple[_Sum, _Sum, _Sum]] = field(default_factory=dict)
    findings: dict[str, FindingVerdict] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SavedTimeline:
    width: _Sum = 0.0
    buckets: list[tuple[_Sum, _Sum]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _SavedBalance:
    sums: dict[str, tuple[_Sum, _Sum, _Sum, _Sum, _Sum, _Sum]] = field(default_factory=dict)
    shared_seconds: _Sum = 0.0


@dataclass(frozen=True, slots=True)
class _SavedOwner:
    """An account as `dump_account` returns it. Numbers of all its parts are finite."""

    __pydantic_config__: ClassVar[ConfigDict] = {"allow_inf_nan": False}

    owner: Owner
    begin: _Moment
    first_seen: _Moment
    last_seen: _Moment
    end: _Moment | None
    gpus: list[_SavedGpu]
    elapsed: _Sum | None = None  # of an earlier version, whose durations followed the wall clock
    timeline: _SavedTimeline = field(default_factory=_SavedTimeline)  # absent in an earlier version
    host: JobHostUsage | None = None
    balance: _SavedBalance = field(default_factory=_SavedBalance)
    exempt: str = ""
    left: _Moment | None = None


_ADAPTER = TypeAdapter(_SavedOwner)
_PLAIN = ("held", "sharers", "memory_bytes", "bridged_joules", "energy", "events", "findings")
_VECTORS = ("alone", "shared", "share", "boundary", "slices", "board", "allocated")
"""Fields of `GpuAccount` that are saved as they are, and as counters by name."""


def dump_account(account: OwnerAccount) -> SavedAccount:
    """Return an account as JSON, as of the newest sample that shows its owner, or of the loss of its last GPU."""
    unseen = account.unseen if account.left is None else 0.0
    return {
        "owner": {name: value for name, value in asdict(account.owner).items() if value},
        "begin": account.begin,
        "first_seen": account.first_seen,
        "last_seen": account.last_seen,
        "left": account.left,
        "end": account.end,
        "elapsed": account.elapsed - unseen,
        "timeline": account.timeline.dump(),
        "host": None if account.host is None else asdict(account.host),
        "balance": account.balance.dump(),
        "exempt": account.exempt,
        "gpus": [_dump_gpu(each, account, unseen) for each in account.gpus.values()],
    }


def load_account(saved: object) -> OwnerAccount:
    """Return an account from JSON; it has no GPU until its owner is seen again.

    Raises:
        ValueError: it is not an account.
    """
    try:
        saved_account = _ADAPTER.validate_python(saved)
        account = OwnerAccount(
            saved_account.owner,
            saved_account.begin,
            saved_account.first_seen,
            saved_account.last_seen,
            saved_account.end,
        )
        moment = saved_account.last_seen if saved_account.end is None else saved_account.end
        account.elapsed = (
            max(moment - saved_account.begin, 0.0) if saved_account.elapsed is None else saved_account.elapsed
        )
        account.host, account.exempt, account.left = saved_account.host, saved_account.exempt, saved_account.left
        account.timeline = Timeline.load(saved_account.timeline.width, saved_account.timeline.buckets)
        account.balance = Balance.load(saved_account.balance.sums, saved_account.balance.shared_seconds)
        for saved_gpu in saved_account.gpus:
            each = _load_gpu(saved_gpu, saved_account.last_seen)
            each.is_announced = saved_account.end is None
            account.gpus[each.device.entity.key] = each
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"not an account: {place}: {first['msg']}; the value is {first['input']!r:.80}") from None
    except TypeError as error:  # an unknown property of a device
        raise ValueError(f"not an account: {error}") from None
    if not account.owner.id:
        raise ValueError("not an account: its owner has no id")
    return account


def ended_account(line: bytes) -> OwnerAccount:
    """Return the account in a line of a file.

    Raises:
        ValueError: the line is not an account that has ended.
    """
    try:
        account = load_account(json.loads(line[max(line.rfind(_BEGIN), 0) :]))
    except RecursionError:
        raise ValueError("not an account: nested too deep") from None
    if account.end is None:
        raise ValueError("it has not ended")
    return account


def _dump_gpu(account: GpuAccount, owner: OwnerAccount, unseen: float) -> SavedAccount:
    since = account.since
    return {
        "device": dump_device(account.device),
        "since": None if since is None else owner.last_seen - (owner.now - unseen - since),
        **{name: getattr(account, name) for name in _PLAIN},
        **{name: counters for name in _VECTORS if (counters := dump(getattr(account, name)))},
        "extremes": asdict(account.extremes),
        "moments": account.moments.dump(),
        "conditions": [asdict(each) for each in account.conditions.values()],
        "violations": dict(zip(VIOLATIONS, account.violations, strict=True)),
    }


def dump_device(device: Device) -> dict[str, str]:
    """Return a GPU without its owners as JSON."""
    named = asdict(device.entity) | {"model": device.model, "mig_uuid": device.mig_uuid}
    return {name: value for name, value in named.items() if value}


def load_device(saved: Mapping[str, str]) -> Device:
    """Return a GPU from JSON; raises `TypeError` if it is something else."""
    named: dict[str, Any] = {"gpu": "", **saved}
    model, mig_uuid = named.pop("model", ""), named.pop("mig_uuid", "")
    if named.get("kind") not in get_args(EntityKind):
        raise TypeError(f"{named.get('kind')!r} is not a kind of device")
    return Device(Entity(**named), model, mig_uuid=mig_uuid)


def _load_gpu(saved: _SavedGpu, last_seen: Unix) -> GpuAccount:
    """Return the account of a GPU; the moment of the owner's last sample is 0."""
    same: dict[str, Any] = {name: getattr(saved, name) for name in _PLAIN}
    same |= {name: load(getattr(saved, name)) for name in _VECTORS}
    if saved.since is not None:
        same["since"] = saved.since - last_seen
    return GpuAccount(
        load_device(saved.device),
        **same,
        extremes=saved.extremes,
        moments=Moments.load(saved.moments),
        conditions={each.check: each for each in saved.conditions if each.state in RAISED},
        violations=[saved.violations.get(name) for name in VIOLATIONS],
    )


MAX_ENDED = 1000
MAX_ENDED_BYTES = 4 * 2**20

_BEGIN = b'{"owner":'
"""The first bytes of an account; in its strings, quotes are escaped."""

AccountKey = tuple[str, str, Unix]
"""Kind and id of an owner, and the begin of its account."""


class EndedAccounts:
    """The last owners that have ended, compressed: some 700 bytes for each GPU of an owner."""

    def __init__(self, max_ended: int = MAX_ENDED, max_bytes: int = MAX_ENDED_BYTES) -> None:
        self._max_ended, self._max_bytes = max_ended, max_bytes
        self._kept: OrderedDict[AccountKey, tuple[Owner, Unix, bytes]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of accounts that are kept."""
        return len(self._kept)

    def add(self, account: OwnerAccount) -> bytes:
        """Keep an account that has ended, and drop the oldest ones beyond the limits; return it as a line of JSON."""
        line = json_bytes(dump_account(account))
        self._keep(account, line)
        return line

    @property
    def keys(self) -> set[AccountKey]:
        """The keys of the accounts that are kept."""
        return set(self._kept)

    @property
    def owners(self) -> list[Owner]:
        """The owners of the accounts that are kept."""
        return [owner for owner, _, _ in self._kept.values()]

    def has(self, account: OwnerAccount) -> bool:
        """Return whether an account is kept as one that ended no earlier than this one was seen."""
        kept = self._kept.get(account_key(account))
        return kept is not None and account.last_seen <= kept[1]

    def drop(self, account: OwnerAccount) -> None:
        """Remove an account that continues after all."""
        self._drop(account_key(account))

    def load(self, line: bytes) -> None:
        """Keep an account of an earlier run. What stands before it in the line, a torn one without an end, is lost.

        Raises:
            ValueError: the line is not an account that has ended.
        """
        line = line[max(line.rfind(_BEGIN), 0) :]
        self._keep(ended_account(line), line)

    def find(self, matches: Callable[[Owner, Unix], bool] = lambda owner, end: True) -> Iterator[OwnerAccount]:
        """Return the accounts whose owner and end match, the newest end first.

        They are found at once and unpacked one by one, which takes some 100 us each, even in another thread.
        """
        packed_accounts = [packed for owner, end, packed in reversed(self._kept.values()) if matches(owner, end)]
        return (load_account(json.loads(zlib.decompress(packed))) for packed in packed_accounts)

    def _keep(self, account: OwnerAccount, line: bytes) -> None:
        packed = zlib.compress(line, 1)
        key = account_key(account)
        self._drop(key)
        self._kept[key] = (account.owner, account.end or account.last_seen, packed)
        self._bytes += len(packed)
        while len(self._kept) > self._max_ended or (self._bytes > self._max_bytes and len(self._kept) > 1):
            self._drop(next(iter(self._kept)))

    def _drop(self, key: AccountKey) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= len(old[2])


def account_key(account: OwnerAccount) -> AccountKey:
    """Return what identifies an account."""
    return (*account.owner.key, account.begin)
