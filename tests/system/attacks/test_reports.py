"""Clients that repeat reports of all accounts in files, while others ask for the health of the GPUs."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest

from tests.support.attacks.account_files import write_account_files
from tests.support.control_group import control_group
from tests.support.daemon import Daemon, serving

MEGABYTES = 128

CLIENTS = 4


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("reports")
    write_account_files(folder / "state", 64)
    arguments = ("--source=demo", f"--set=state_dir={folder / 'state'}")
    with control_group(MEGABYTES * 2**20, 64) as within, serving(folder, *arguments, within=within) as daemon:
        yield daemon


@pytest.mark.parametrize("path", ["/report?since=1", "/jobs?since=1&offset=20000", "/jobs/missing"])
def test_documents_of_the_present_do_not_wait_for_files(daemon: Daemon, path: str) -> None:
    is_over, asked = threading.Event(), threading.Semaphore(0)

    def attack() -> None:
        while not is_over.is_set():
            client = http.client.HTTPConnection("127.0.0.1", daemon.port, source_address=("127.0.0.2", 0))
            client.request("GET", path)
            asked.release()
            client.getresponse().read()
            client.close()

    threads = [threading.Thread(target=attack) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            asked.acquire()
        for _ in range(5):
            for now in ("/health/gpus", "/health/gpus?format=line", "/gpus", "/jobs?state=running", "/-/healthy"):
                assert daemon.get(now).status == 200
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
