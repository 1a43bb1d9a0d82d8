"""Documents of accounts: as the schema describes them, and found by every name of an owner."""

from __future__ import annotations

import json

import pytest

from pulsed.model.clocks import Unix
from pulsed.model.owner import Owner
from pulsed.owners.accounting import OwnerAccounting
from pulsed.owners.accounting.saved_accounts import EndedAccounts
from pulsed.present.api.account_documents import AccountShape, account_document
from pulsed.present.api.account_lookup import (
    AccountFilter,
    Accounts,
    accounts_in_memory,
    ended_accounts,
    newest_first,
    running_accounts,
)
from tests.compute.streams import BUSY, DAY, IDLE
from tests.owners.accounting.streams import Node
from tests.support.documents import has_shape

TRAIN = Owner("slurm_job", "4711", Unix(DAY), user="ann", account="lab", partition="gpu")
AGAIN = Owner("slurm_job", "4711", Unix(DAY + 100), user="ann", account="lab", partition="gpu")
WEB = Owner("pod", "ml/web-0/main", uid="u-1", namespace="ml", name="web-0", container="main", labels=(("app", "web"),))
WORKS = BUSY._replace(power_watts=500.0, temperature_celsius=60.0)


@pytest.fixture
def accounts() -> Accounts:
    """The accounts of a job that was requeued and shares its second GPU with a pod."""
    ended = EndedAccounts()
    node = Node(10.0, OwnerAccounting(on_end=ended.add))
    for job in (TRAIN, TRAIN, TRAIN, None, None, AGAIN, AGAIN, AGAIN):
        jobs = () if job is None else (job,)
        node.sees((jobs, WORKS), ((*jobs, WEB), IDLE))
    return Accounts(node.accounting, ended)


def test_documents_have_the_shape_of_the_schema(accounts: Accounts) -> None:
    every = AccountFilter()
    found = [*running_accounts(accounts, every), *ended_accounts(accounts, every)]
    documents = [account_document(account, "here") for account in found]
    assert [document["state"] for document in documents] == ["running", "running", "ended"]
    for document in documents:
        assert has_shape(AccountShape, json.loads(json.dumps(document, allow_nan=False)))


def test_totals_are_the_sums_of_the_gpus(accounts: Accounts) -> None:
    (account,) = ended_accounts(accounts, AccountFilter())
    document = account_document(account, "here")
    own, shared = document["gpus"]
    assert (document["begin"], document["end"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:00:40.000Z")
    assert (document["elapsed_seconds"], document["gpu_count"]) == (40.0, 2)
    assert [gpu["held_seconds"] for gpu in (own, shared)] == [40.0, 40.0]
    assert [gpu["shared_by"] for gpu in (own, shared)] == [1, 2]
    assert [gpu["gpu_seconds"] for gpu in (own, shared)] == [20.0, 10.0]
    assert document["total"]["gpu_seconds"] == 30.0
    assert document["total"]["observed_seconds"] == 40.0
    assert document["coverage"] == 0.5
    assert document["boundary_seconds"] == 20.0  # of its last sample; the first one covers nothing
    assert shared["counters"]["idle_seconds"] == {"held": 10.0}
    assert shared["lower"]["idle_seconds"] == {}
    assert shared["upper"]["idle_seconds"] == {"held": 30.0}
    assert own["counters"]["class_energy_joules"] == {"tensor_heavy_compute": 20 * 500.0}
    assert own["peaks"] == {"memory_used_bytes": 40e9, "power_watts": 500.0, "temperature_celsius": 60.0}


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("4711", [DAY + 100, DAY]),
        ("ml/web-0/main", [DAY + 10]),
        ("u-1", [DAY + 10]),
        ("pod:ml/web-0", [DAY + 10]),
        ("web-0", [DAY + 10]),
        ("web", []),
        ("", []),
    ],
)
def test_accounts_are_found_by_every_name(accounts: Accounts, name: str, begins: list[float]) -> None:
    found = newest_first(accounts_in_memory(accounts, name))
    assert [account.begin for account in found] == [min(begin, DAY + 60) for begin in begins]


@pytest.mark.parametrize(
    ("wanted", "running", "ended"),
    [
        (AccountFilter(state="running"), 2, 0),
        (AccountFilter(state="ended"), 0, 1),
        (AccountFilter(kind="pod"), 1, 0),
        (AccountFilter(user="ann"), 1, 1),
        (AccountFilter(account="lab", user="bob"), 0, 0),
        (AccountFilter(namespace="ml"), 1, 0),
        (AccountFilter(since=DAY + 40), 2, 1),
        (AccountFilter(since=DAY + 41), 2, 0),
    ],
)
def test_filters(accounts: Accounts, wanted: AccountFilter, running: int, ended: int) -> None:
    assert len(running_accounts(accounts, wanted)) == running
    assert len(list(ended_accounts(accounts, wanted))) == ended
