"""A daemon whose `state_dir` is on a file system that has stopped answering, as NFS does without its server."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.support.daemon import pulsed, serving
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


def test_the_files_of_a_daemon_are_not_for_all(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    before = os.umask(0)
    try:
        # With this variable it is no fork of another process, which has a mask of its own.
        with serving(tmp_path, "--source", "demo", "--set", f"state_dir={folder}", PYTHONHASHSEED="0") as daemon:
            until((folder / "state.json").exists)
            assert daemon.stop() == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.pop("lock") == 0o644  # process id and host, for the message of a second daemon
    assert set(modes.values()) == {0o640}


def test_a_second_daemon_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    state = ("--source", "demo", "--set", f"state_dir={folder}")
    with serving(tmp_path, *state) as daemon:
        until((folder / "state.json").exists)
        names = sorted(path.name for path in folder.iterdir())
        second = pulsed("serve", *state, "--web.listen-address", "127.0.0.1:0")
        assert second.returncode != 0
        assert f"{folder} is in use by process {daemon.process.pid}" in second.stderr
        assert "set another state_dir" in second.stderr
        assert sorted(path.name for path in folder.iterdir()) == names
        assert daemon.get("/-/ready").status == 200
        assert daemon.stop() == 0
    assert json.loads((folder / "state.json").read_text())["sections"]
