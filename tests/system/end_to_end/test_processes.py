"""Processes of jobs in a real daemon."""

from __future__ import annotations

from pathlib import Path

from tests.support.daemon import serving


def test_processes_are_published_on_request_only(tmp_path: Path) -> None:
    with serving(tmp_path, "--source=demo") as daemon:
        assert daemon.get("/processes").json() == {"published": False, "visible": None, "processes": []}
    with serving(tmp_path, "--source=demo", "--set=attribution.processes.enabled=true") as daemon:
        found = daemon.get("/processes").json()
        assert found["published"]
        assert isinstance(found["visible"], bool)
        assert isinstance(found["processes"], list)
