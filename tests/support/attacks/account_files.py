"""Files of the accounts of many owners that have ended, as a busy node has them after weeks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from pulsed.json_text import json_bytes
from pulsed.model.owner import Owner
from pulsed.owners.accounting.saved_accounts import dump_account
from tests.compute.streams import BUSY
from tests.owners.accounting.streams import Node


def template() -> Any:
    """The account of a job that has ended, as it is saved."""
    node = Node()
    for _ in range(300):
        node.sees(((Owner("slurm_job", "1", user="user"),), BUSY))
    (account,) = node.accounting.running
    account.end = account.last_seen
    return json.loads(json_bytes(dump_account(account)))


def write_account_files(folder: Path, megabytes: float, days: int = 8, users: int = 100) -> int:
    """Write accounts of the last days, not of today, and return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    saved, number, now = template(), 0, time.time()
    for day in range(1, days + 1):
        end = now - day * 86400
        path = folder / time.strftime("jobs-%Y-%m-%d.ndjson", time.gmtime(end))
        with path.open("wb") as file:
            while file.tell() < megabytes * 2**20 / days:
                number += 1
                saved["owner"] |= {"id": str(number), "user": f"user{number % users}"}
                saved |= {"begin": end - 300, "first_seen": end - 300, "last_seen": end, "end": end}
                file.write(json_bytes(saved) + b"\n")
    return number
