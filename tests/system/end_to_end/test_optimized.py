"""`python -OO` drops docstrings and assertions; every command works the same without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import pulsed, serving
from tools.generate_docs import ROOT

REPLAY = (
    *("--source", "replay"),
    *("--set", f"source.replay.path={ROOT / 'tests/golden/pages/exporter-4.8-two-gpus.prom'}"),
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("rules",),
        ("check-config", str(ROOT / "config.example.yaml")),
        ("check-config", str(ROOT / "tests/config/fixtures/several-mistakes.bad.yml")),
        ("snapshot", *REPLAY, "--format", "csv"),
        ("export", *REPLAY, "--columns", "all", "--log.level", "error"),
    ],
    ids=" ".join,
)
def test_commands_print_the_same(command: tuple[str, ...]) -> None:
    normal, optimized = pulsed(*command), pulsed(*command, PYTHONOPTIMIZE="2")
    assert (optimized.returncode, optimized.stdout, optimized.stderr) == (
        normal.returncode,
        normal.stdout,
        normal.stderr,
    )


@pytest.mark.nightly
def test_the_daemon_serves_the_same_descriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    for level in ("0", "2"):
        monkeypatch.setenv("PYTHONOPTIMIZE", level)
        with serving(tmp_path, "--source", "demo") as daemon:
            page = daemon.get("/metrics").text
            helps = sorted(line for line in page.splitlines() if line.startswith("# HELP pulsed_gpu_"))
            served.append((helps, daemon.get("/openapi.json").json(), len(daemon.get("/gpus").json()["gpus"])))
    assert served[0] == served[1]
