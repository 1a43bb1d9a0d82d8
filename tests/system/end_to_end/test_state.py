"""The folder of state: one daemon each, whatever is in it, and on a full disk."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.daemon import pulsed, serving
from tests.support.full_disk import filled, small_disk
from tests.support.waiting import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pulsed.yaml"
    path.write_text("source: {kind: demo}\nstate_dir: state\n")
    return path


def test_a_second_daemon_ends_and_names_the_first(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, f"--config.file={file}") as daemon:
        second = pulsed("serve", f"--config.file={file}", "--web.listen-address=127.0.0.1:0")
        assert (second.returncode, second.stdout) == (1, "")
        assert second.stderr == (
            f"pulsed: state_dir: {tmp_path}/state is in use by process {daemon.process.pid}. End that process, or set "
            "another state_dir: each daemon needs its own\n"
        )
        assert daemon.stop() == 0


def test_other_commands_run_beside_the_daemon(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, f"--config.file={file}"):
        record = ("record", str(tmp_path / "record"), "--ticks=1")
        for command in (("snapshot",), record, ("doctor",), ("top", "--once", "--source=demo"), ("rules",)):
            done = pulsed(*command, f"--config.file={file}")
            assert done.returncode == 0, done.stderr
            assert "state_dir" not in done.stderr


def test_top_leaves_the_folder_to_the_daemon(tmp_path: Path, file: Path) -> None:
    assert pulsed("top", "--once", "--source=demo", f"--config.file={file}").returncode == 0
    assert not (tmp_path / "state").exists()


def test_a_reload_keeps_the_lock(tmp_path: Path, file: Path) -> None:
    with serving(tmp_path, f"--config.file={file}") as daemon:
        for folder in ("state", "other"):
            before = daemon.log().count("configuration reloaded")
            file.write_text(f"source: {{kind: demo}}\nstate_dir: {folder}\n# changed\n")
            daemon.process.send_signal(signal.SIGHUP)
            until(lambda before=before: daemon.log().count("configuration reloaded") > before)  # type: ignore[misc]
        assert "a change of these keys needs a restart" in daemon.log()
        assert not (tmp_path / "other").exists()
        second = pulsed("serve", "--source=demo", f"--set=state_dir={tmp_path}/state")
        assert f"in use by process {daemon.process.pid}" in second.stderr
        assert daemon.get("/-/ready").status == 200


def test_a_daemon_that_was_killed_can_be_started_again(tmp_path: Path, file: Path) -> None:
    for _ in range(2):
        with serving(tmp_path, f"--config.file={file}") as daemon:
            daemon.stop(signal.SIGKILL)


def test_what_is_in_the_folder_stops_nothing(tmp_path: Path, file: Path) -> None:
    (tmp_path / "state").mkdir()
    for name in ("state.json", "jobs-2026-01-01.ndjson"):
        os.mkfifo(tmp_path / "state" / name)
    with serving(tmp_path, f"--config.file={file}") as daemon:
        until(lambda: (tmp_path / "state" / "state.json").is_file())
        assert daemon.log().count("was broken and is set aside") == 1
        assert daemon.stop() == 0


def test_a_full_disk_is_a_metric_until_there_is_room(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        filled(disk) as free,
        serving(tmp_path, "--source=demo", f"--set=state_dir={disk}/state") as daemon,
    ):
        until(lambda: 'pulsed_state_up{file="state.json"} 0' in daemon.get("/metrics").text)
        free()
        until(lambda: 'pulsed_state_up{file="state.json"} 1' in daemon.get("/metrics").text)
        assert "pulsed_state_lost_accounts_total 0" in daemon.get("/metrics").text
        assert daemon.log().count("state cannot be saved") == 1
        assert daemon.log().count("state can be saved again") == 1
        assert daemon.stop() == 0
