"""Fixtures of API servers: the fake one, and a real one where `make kubernetes` has built it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsed.kubernetes import api_client
from tests.support.kubernetes.exchanges import Cluster
from tests.support.kubernetes.fake_api_server import FakeApiServer
from tests.support.kubernetes.real_api_server import RealApiServer, program


@pytest.fixture(scope="session")
def running_api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealApiServer]:
    program()
    server = RealApiServer(tmp_path_factory.mktemp("kubernetes"))
    with server.running():
        yield server


@pytest.fixture
def real(running_api_server: RealApiServer) -> RealApiServer:
    """A real API server without pods and workloads."""
    running_api_server.clear()
    return running_api_server


@pytest.fixture
def operated(real: RealApiServer) -> RealApiServer:
    """The real API server with kinds of operators; TEST_CRDS is a folder with their definitions."""
    folder = os.environ.get("TEST_CRDS")
    real.define_operated(Path(folder) if folder else None)
    return real


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApiServer]:
    """The fake one, which clients may ask as often as they like."""
    monkeypatch.setattr(api_client, "REQUEST_LIMITS", ())
    fake = FakeApiServer(tmp_path)
    with fake.running() as fake.url:
        yield fake


@pytest.fixture(params=["fake", "real"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A test with this runs against both API servers."""
    if request.param == "real":
        yield request.getfixturevalue("real")
    else:
        fake = FakeApiServer(tmp_path)
        with fake.running() as fake.url:
            yield fake
