"""The files of accounts: whatever is in them, accounts go on, and what is written then can be read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulsed.daemon.account_files import AccountFiles
from pulsed.owners.accounting.account import OwnerAccount
from pulsed.owners.accounting.accounting import OwnerAccounting
from pulsed.owners.accounting.balance_recorder import BalanceRecorder
from pulsed.owners.accounting.saved_accounts import EndedAccounts, dump_account
from pulsed.present.api.account_documents import account_document
from tests.compute.streams import BUSY
from tests.owners.accounting.streams import A, B, Node
from tools.fuzz.json_mutator import mutate_json
from tools.fuzz.target import FuzzTarget

_FOLDER = Path(tempfile.mkdtemp(prefix="pulsed-fuzz-"))
_RUNNING, _ENDED = _FOLDER / "jobs.json", _FOLDER / "jobs-2026-01-01.ndjson"


class _Run:
    """A run of pulsed with what is in the folder."""

    def __init__(self) -> None:
        self.ended = EndedAccounts()
        self.node = Node(accounting=OwnerAccounting(on_end=self._end))
        self.node.clock = 100.0
        self.files = AccountFiles(_FOLDER, self.node.accounting, self.ended)
        self.files.restore()

    def _end(self, account: OwnerAccount) -> None:
        self.ended.add(account)


def _read(data: bytes) -> bytes | None:
    """Return the file of running accounts that a run writes which began with these files: a line, and all others.

    None if nothing in them is valid: then it is a run without files. Also None if an account has ended in the future,
    which is that of an owner that runs.
    """
    for path in _FOLDER.iterdir():
        path.unlink()
    running, _, ended = data.partition(b"\n")
    _RUNNING.write_bytes(running)
    _ENDED.write_bytes(ended)
    run = _Run()
    if not _RUNNING.exists() and not len(run.ended):
        return None
    result = _result(run)
    return None if any(run.ended.has(account) for account in run.node.accounting.unfinished) else result


def _result(run: _Run) -> bytes:
    for owners in [(A,), (A,), (), (), ()]:
        run.node.sees((owners, BUSY), ((B,), BUSY))
    for account in (*run.node.accounting.unfinished, *run.ended.find()):
        json.dumps(account_document(account, "node"), allow_nan=False)
    _RUNNING.unlink(missing_ok=True)
    run.files.write()
    assert _RUNNING.exists(), "the accounts of a run cannot be written"
    return _RUNNING.read_bytes()


def _verify(data: bytes, outcome: Any) -> None:
    if outcome is None:
        return
    run = _Run()
    accounts = {json.dumps(dump_account(each), sort_keys=True) for each in run.node.accounting.unfinished}
    assert accounts == {json.dumps(each, sort_keys=True) for each in json.loads(outcome)["accounts"]}


def _seeds() -> Iterator[bytes]:
    for path in _FOLDER.iterdir():
        path.unlink()
    run, balances = _Run(), BalanceRecorder()
    for owners in [(A,), (A, B), (A,), (), (), ()]:
        run.node.sees((owners, BUSY), ((B,), BUSY))
        balances.take(run.node.accounting.running, limit=45.0)
    run.files.write()
    ended = [json.dumps(dump_account(each)).encode() for each in run.ended.find()]
    yield b"\n".join([_RUNNING.read_bytes(), *ended])
    document = json.loads(_RUNNING.read_bytes())
    for account in document["accounts"]:
        for gpu in account["gpus"]:
            for name in ("alone", "shared", "share", "boundary"):
                gpu.pop(name, None)
    yield json.dumps(document, separators=(",", ":")).encode()
    yield b'{"version":1,"accounts":[]}\n{"owner":{"kind":"pod","id":"a"}}'


SAVED_ACCOUNTS = FuzzTarget(
    "saved_accounts",
    _read,
    (),
    _verify,
    _seeds,
    (
        *(b'{"version":1,"accounts":[', b'"owner":{"kind":"slurm_job","id":"a"}', b'"gpus":[{"device":{', b'"end":'),
        *(b'"extremes":{', b'"energy":[1,2]', b'"violations":{', b'"events":[[', b'"alone":{"observed_seconds":1}'),
        *(b'"moments":{"power_watts":[1,2,3]}', b'"timeline":{"width":1,"buckets":[[1,2]]}'),
        b'"balance":{"sums":{"dram_active_ratio":[1,1,1,1,1,1]},"shared_seconds":1}',
        *(b"NaN", b"Infinity", b"1e308", b"null", b"true", b"[]", b"{}", b"-1", b'"b"', b"\\ud800", b"\n"),
    ),
    mutate_json,
)
