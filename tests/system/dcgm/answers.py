"""What a daemon answers about a GPU."""

from __future__ import annotations

from typing import Any

from tests.support.daemon import Daemon


def check_of(daemon: Daemon, gpu: int, name: str) -> str:
    """Return the state of a check of a GPU; empty while there is no such GPU."""
    answer = daemon.get(f"/gpus/{gpu}")
    checks = answer.json()["health"]["checks"] if answer.status == 200 else ()
    return next((check["state"] for check in checks if check["id"] == name), "")


def facts_of(daemon: Daemon, gpu: int) -> dict[str, Any]:
    """Return what identifies a GPU."""
    document = daemon.get(f"/gpus/{gpu}").json()
    return {name: document[name] for name in ("uuid", "serial", "vbios_version", "model")}
