"""Every route of the daemon with queries as long as a head may be: none fails, and none takes long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.attacks.watch import cpu_seconds
from tests.support.daemon import Daemon, serving
from tests.support.nightly import nightly_after
from tests.system.attacks.test_http_clients import DEMO, MAX_WORK

LONG = 30_000
"""Bytes of a query; a head has at most 32 KiB."""

WITHOUT_SCHEMA = ("/metrics", "/docs/operations", "/docs/none", "/-/ready", "/-/healthy", "/-/forget", "/")
PARAMETERS = ("name[]", "gpu", "fields", "with", "limit", "since", "x")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("queries")
    with serving(folder, *DEMO, "--set", f"state_dir={folder / 'state'}") as daemon:
        yield daemon


def queries() -> Iterator[str]:
    yield "a&" * (LONG // 2)
    yield "&".join(f"a{number}=1" for number in range(LONG // 9))
    for name in PARAMETERS:
        yield f"{name}=1&" * (LONG // (len(name) + 3))
        yield f"{name}=" + ",".join(map(str, range(LONG // 6)))
        yield f"{name}=" + "9" * LONG
        yield f"{name}=%ff%00"


@pytest.mark.parametrize("query", nightly_after(10, queries()), ids=lambda query: query[:20])
def test_a_long_query_is_refused_or_answered(daemon: Daemon, query: str) -> None:
    routes = [path for path, methods in daemon.get("/openapi.json").json()["paths"].items() if "get" in methods]
    for route in dict.fromkeys((*routes, *WITHOUT_SCHEMA)):
        path = re.sub(r"\{[^}]*\}", "0", route)
        if path == "/events":  # it has no end
            continue
        before = cpu_seconds(daemon)
        status = daemon.get(f"{path}?{query}").status
        assert status < 500, path
        assert cpu_seconds(daemon) - before < MAX_WORK, path
    assert "Traceback" not in daemon.log()
