"""A daemon whose `state_dir` is on a file system that has stopped answering, as NFS does without its server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import serving
from tests.support.waiting import until

HANGING = """
import os, time

def hang(descriptor):
    open({marker!r}, "w").close()
    time.sleep(10_000)

os.fsync = hang
"""


@pytest.mark.parametrize("is_periodic", [True, False], ids=["periodic write", "write at the end"])
def test_a_hanging_write_does_not_keep_the_daemon_from_ending(tmp_path: Path, is_periodic: bool) -> None:
    marker, patch = tmp_path / "hangs", tmp_path / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(HANGING.format(marker=str(marker)))
    state = f"state_dir={tmp_path / 'state'}"
    with serving(tmp_path, "--source", "demo", "--set", state, PYTHONPATH=f"{patch}:.") as daemon:
        if is_periodic:
            until(marker.exists)
        assert daemon.stop() == 1
        assert marker.exists()
        assert "while calls had not returned" in daemon.log()
        assert "os.fsync(descriptor)" in daemon.log()
    assert not (tmp_path / "state" / "state.json").exists()
