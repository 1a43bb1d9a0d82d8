"""The files of accounts: whatever is in them, accounts go on, and what is written then can be read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulsed.config.configuration import Config
from pulsed.daemon.accounts import AccountsFeature
from pulsed.daemon.changes import EventsFeature
from pulsed.daemon.state_folder import StateFolder
from pulsed.model.target_store import TargetStore
from pulsed.owners.accounting.account import FREE
from pulsed.owners.accounting.host_balances import BalanceRecorder
from pulsed.owners.accounting.saved_accounts import dump_account
from pulsed.present.api.account_documents import account_document
from tests.compute.streams import BUSY
from tests.daemon.parts import features_before_restore
from tests.owners.accounting.streams import A, B, Node
from tools.fuzz.json_mutator import mutate_json
from tools.fuzz.target import FuzzTarget

_FOLDER = Path(tempfile.mkdtemp(prefix="pulsed-fuzz-"))
_STATE, _ENDED = _FOLDER / "state.json", _FOLDER / "jobs-2026-01-01.ndjson"


class _Run:
    """A run of pulsed with what is in the folder."""

    def __init__(self) -> None:
        config = Config(state_dir=str(_FOLDER))
        self.features = features_before_restore(
            TargetStore("node"), config, EventsFeature, AccountsFeature, StateFolder
        )
        feature = self.features.by_class[AccountsFeature]
        assert isinstance(feature, AccountsFeature)
        self.ended = feature.ended
        self.node = Node(accounting=feature.accounting)
        self.node.clock = 100.0
        self.features.restore()

    def dump(self) -> Any:
        """Write everything; return the running accounts of the file."""
        self.features.save()
        return json.loads(_STATE.read_bytes())["sections"]["accounts"]


def _read(data: bytes) -> bytes | None:
    """Return the running accounts that a run writes which began with these files: a line of them, and ended ones.

    None if nothing in them is valid: then it is a run without files. Also None if an account has ended in the future,
    which is that of an owner that runs.
    """
    for path in _FOLDER.iterdir():
        path.unlink()
    running, _, ended = data.partition(b"\n")
    _STATE.write_bytes(b'{"version":1,"sections":{"accounts":%s}}' % running)
    _ENDED.write_bytes(ended)
    run = _Run()
    if not _STATE.exists() and not len(run.ended):
        return None
    result = _result(run)
    return None if any(run.ended.has(account) for account in run.node.accounting.unfinished) else result


def _result(run: _Run) -> bytes:
    for owners in [(A,), (A,), (), (), ()]:
        run.node.sees((owners, BUSY), ((B,), BUSY))
    for account in (*run.node.accounting.unfinished, *run.ended.find()):
        json.dumps(account_document(account, "node"), allow_nan=False)
    _STATE.unlink(missing_ok=True)
    return json.dumps(run.dump()).encode()


def _verify(data: bytes, outcome: Any) -> None:
    if outcome is None:
        return
    run = _Run()
    accounts = {json.dumps(dump_account(each), sort_keys=True) for each in run.node.accounting.unfinished}
    saved = [each for each in json.loads(outcome) if each["owner"]["id"] != FREE.id]  # ended by the restart
    assert accounts == {json.dumps(each, sort_keys=True) for each in saved}


def _seeds() -> Iterator[bytes]:
    for path in _FOLDER.iterdir():
        path.unlink()
    run, balances = _Run(), BalanceRecorder()
    for owners in [(A,), (A, B), (A,), (), (), ()]:
        run.node.sees((owners, BUSY), ((B,), BUSY))
        balances.add_balances(run.node.accounting.running, limit=45.0)
    running = run.dump()
    ended = [json.dumps(dump_account(each)).encode() for each in run.ended.find()]
    yield b"\n".join([json.dumps(running).encode(), *ended])
    for account in running:
        for gpu in account["gpus"]:
            for name in ("alone", "shared", "share", "boundary"):
                gpu.pop(name, None)
    yield json.dumps(running, separators=(",", ":")).encode()
    yield b'[]\n{"owner":{"kind":"pod","id":"a"}}'


SAVED_ACCOUNTS = FuzzTarget(
    "saved_accounts",
    _read,
    (),
    _verify,
    _seeds,
    (
        *(b'"owner":{"kind":"slurm_job","id":"a"}', b'"gpus":[{"device":{', b'"end":'),
        *(b'"extremes":{', b'"energy":[1,2]', b'"violations":{', b'"events":[[', b'"alone":{"observed_seconds":1}'),
        *(b'"moments":{"power_watts":[1,2,3]}', b'"timeline":{"width":1,"buckets":[[1,2]]}'),
        b'"balance":{"sums":{"dram_active_ratio":[1,1,1,1,1,1]},"shared_seconds":1}',
        *(b"NaN", b"Infinity", b"1e308", b"null", b"true", b"[]", b"{}", b"-1", b'"b"', b"\\ud800", b"\n"),
    ),
    mutate_json,
)
