from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pulsed.die_with_parent import CANNOT_RUN, NOT_FOUND
from pulsed.errors import CommandMissing
from pulsed.reader.dcgmi.child import Child, environment, find
from tests.reader.dcgmi.processes import children, script, until_gone, wait_until_dead
from tests.support.loops import leaves_nothing
from tests.support.waiting import SECONDS, eventually


class Listener:
    """Starts a child and keeps its output."""

    def __init__(self) -> None:
        self.output = b""
        self.over = asyncio.Event()
        self.child: Child

    def hear(self, data: bytes) -> None:
        self.output += data

    async def start(self, *command: str) -> Child:
        self.child = await Child.start(command, self.hear, self.over.set)
        return self.child

    async def says(self, text: bytes) -> None:
        await eventually(lambda: text in self.output)

    async def ends(self) -> None:
        await asyncio.wait_for(self.over.wait(), SECONDS)


async def running(text: str) -> Child:
    """Start a shell script and wait until it prints `up`."""
    listener = Listener()
    child = await listener.start("/bin/sh", "-c", text)
    await listener.says(b"up")
    return child


FOR_EVER = "echo up; while :; do sleep 0.01; done"


@leaves_nothing
async def test_it_has_its_own_group_and_session_and_no_descriptors_of_ours() -> None:
    listener = Listener()
    child = await listener.start("/bin/sh", "-c", "ls /proc/$$/fd; echo done; sleep 60")
    await listener.says(b"done")
    assert (os.getpgid(child.pid), os.getsid(child.pid)) == (child.pid, child.pid)
    descriptors = listener.output.decode().replace("done", "").split()
    assert {int(number) for number in descriptors} - {10} == {0, 1, 2}  # sh itself may open 10
    await child.end_now()
    await until_gone(child.pid)


def test_its_environment_is_ours_without_what_hides_gpus() -> None:
    ours = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "1", "LC_ALL": "de_DE.UTF-8", "DCGM_HOME_DIR": "/x"}
    assert environment(ours) == {"PATH": "/bin", "LC_ALL": "C", "DCGM_HOME_DIR": "/x"}


async def test_the_environment_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("PULSED_TEST", "kept")
    listener = Listener()
    child = await listener.start("/usr/bin/env")
    await listener.ends()
    lines = listener.output.decode().splitlines()
    assert "PULSED_TEST=kept" in lines
    assert "LC_ALL=C" in lines
    assert not [line for line in lines if line.startswith("CUDA_VISIBLE_DEVICES")]
    await child.end_now()


async def test_a_closed_pipe_kills_it_as_if_python_had_not_been_there() -> None:
    listener = Listener()
    child = await listener.start("/bin/sh", "-c", "grep SigIgn /proc/$$/status; sleep 60")
    await listener.says(b"SigIgn")
    ignored = int(listener.output.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))
    assert not ignored & (1 << (signal.SIGXFSZ - 1))
    await child.end_now()


@leaves_nothing
async def test_an_end_in_order_is_sigint() -> None:
    child = await running(f"trap 'exit 7' INT; {FOR_EVER}")
    await child.end(orderly=SECONDS)
    assert child.status == 7
    assert children() == []


@pytest.mark.parametrize(("ignored", "signal_number"), [("INT", signal.SIGTERM), ("INT TERM", signal.SIGKILL)])
@leaves_nothing
async def test_who_ignores_a_signal_gets_a_harder_one(ignored: str, signal_number: signal.Signals) -> None:
    child = await running(f"trap '' {ignored}; {FOR_EVER}")
    await child.end(orderly=0.05)
    assert child.status == -signal_number
    assert children() == []


@leaves_nothing
async def test_a_stopped_one_ends_too() -> None:
    child = await running("echo up; sleep 60")
    os.kill(child.pid, signal.SIGSTOP)
    await child.end(orderly=0.05)
    assert child.status == -signal.SIGKILL


@leaves_nothing
async def test_an_end_that_is_given_up_still_leaves_nothing() -> None:
    for turns in range(4):
        child = await running(f"trap '' INT TERM; {FOR_EVER}")
        task = asyncio.create_task(child.end(SECONDS) if turns % 2 else child.end_now())
        for _ in range(turns // 2 + 1):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert child.pid not in children()


@leaves_nothing
async def test_what_it_started_goes_with_it() -> None:
    listener = Listener()
    child = await listener.start("/bin/sh", "-c", "sleep 60 & echo $!; trap 'exit 0' INT; wait")
    await listener.says(b"\n")
    grandchild = int(listener.output)
    await child.end(orderly=SECONDS)
    wait_until_dead(grandchild)


@leaves_nothing
async def test_a_closed_output_is_an_end_though_it_lives() -> None:
    listener = Listener()
    child = await listener.start("/bin/sh", "-c", "echo up; exec >&-; sleep 60")
    await listener.ends()
    assert child.status is None
    await child.end_now()
    await until_gone(child.pid)


@leaves_nothing
async def test_an_exit_is_an_end_though_another_process_holds_the_output() -> None:
    listener = Listener()
    child = await listener.start("/bin/sh", "-c", "setsid sleep 3 & echo up; exit 5")
    await listener.ends()
    assert child.status == 5
    assert listener.output == b"up\n"
    await child.end_now()


@leaves_nothing
async def test_stderr_is_drained_and_its_last_lines_are_kept() -> None:
    listener = Listener()
    flood = "i=0; while [ $i -lt 20000 ]; do echo flood flood flood >&2; i=$((i+1)); done; echo last >&2; echo done"
    child = await listener.start("/bin/sh", "-c", flood)
    await listener.ends()
    assert listener.output == b"done\n"
    assert child.stderr[-2:] == ["flood flood flood", "last"]
    assert sum(map(len, child.stderr)) < 10_000
    await child.end_now()


async def test_what_is_no_program_exits_as_in_a_shell(tmp_path: Path) -> None:
    no_program = tmp_path / "dcgmi"
    no_program.write_text("not a program")
    for command, status in ((str(tmp_path / "gone"), NOT_FOUND), (str(no_program), CANNOT_RUN)):
        listener = Listener()
        child = await listener.start(command)
        await listener.ends()
        assert child.status == status
        assert child.stderr[0].startswith(command)
        await child.end_now()


async def test_a_machine_that_starts_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(CommandMissing, match="cannot start /bin/true"):
        await Listener().start("/bin/true")


def test_commands_are_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(tmp_path, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find("dcgmi") == path
    assert find(path) == path
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CommandMissing, match="dcgmi is not on PATH"):
        find("dcgmi")
    with pytest.raises(CommandMissing, match="not there or cannot be run"):
        find(str(tmp_path / "other"))


_PARENT = """
import asyncio, sys
from pulsed.reader.dcgmi.child import Child

async def main():
    up = asyncio.Event()
    child = await Child.start(("/bin/sh", "-c", "trap '' INT TERM HUP; echo up; while :; do sleep 0.05; done"),
                              lambda data: up.set(), lambda: None)
    await up.wait()
    print(child.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_it_does_not_outlive_a_parent_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait(SECONDS)
    parent.stdout.close()
    wait_until_dead(pid)


def test_a_leash_whose_parent_is_gone_runs_nothing(tmp_path: Path) -> None:
    from pulsed import die_with_parent

    mark = tmp_path / "ran"
    command = [sys.executable, "-I", "-S", die_with_parent.__file__, "1", "/bin/touch", str(mark)]
    assert subprocess.run(command, check=False).returncode == 1
    assert not mark.exists()
