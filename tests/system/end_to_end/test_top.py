"""`pulsed top` as people run it: in a terminal and into a pipe, with real daemons."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pulsed.apps.top.app import MIN_PAUSE_SECONDS
from tests.support.daemon import Daemon, environment, pulsed, serving
from tests.support.tmux import Terminal, terminal
from tests.support.waiting import SECONDS, until

TOP = f"{sys.executable} -m pulsed top"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with serving(tmp_path_factory.mktemp("top"), "--source=demo") as running:
        yield running


@pytest.fixture(scope="module")
def url(daemon: Daemon) -> str:
    return f"http://{daemon.address}"


def test_one_frame_into_a_pipe(url: str) -> None:
    done = pulsed("top", "--once", url, COLUMNS="110", LINES="34")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.match(rf"pulsed  \S+  {url}  live \d\.\d s  DEMO", lines[0])
    assert lines[1].startswith("GPUs 8 | ")
    assert sum("H100" in line or re.match(r" +\d ", line) is not None for line in lines[2:]) >= 8
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 110 for line in lines)


def test_a_fragment_opens_a_gpu_and_ascii_is_ascii(url: str) -> None:
    done = pulsed("top", "--once", "--ascii", f"{url}#/gpu/3?s=60", COLUMNS="100", LINES="50")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert re.search(r"GPU \S+/3 H100", done.stdout)
    assert "PCIe receive" in done.stdout
    assert "Accounting since" in done.stdout


@pytest.mark.parametrize("encoding", ["iso-8859-1", "gbk", "ascii"])
@pytest.mark.parametrize("fragment", ["#/", "#/gpu/3", "#/plot", "#/work"])
def test_what_an_encoding_lacks_becomes_ascii(url: str, encoding: str, fragment: str) -> None:
    sizes = {"COLUMNS": "120", "LINES": "45"}
    done = subprocess.run(
        [*TOP.split(), "--once", f"{url}{fragment}"],
        env=environment(PYTHONIOENCODING=encoding, **sizes),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"GPUs 8 | " in done.stdout


@pytest.mark.parametrize("encoding", ["iso-8859-1", "gbk", "ascii"])
def test_other_commands_print_what_an_encoding_has(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pulsed", "snapshot", "--format=csv", "--source=demo", "--set=node=Zürich"],
        env=environment(PYTHONIOENCODING=encoding),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert ("Z?rich" if encoding == "ascii" else "Zürich").encode(encoding) in done.stdout


def test_a_console_without_graphs(url: str) -> None:
    done = pulsed("top", "--once", url, TERM="linux", COLUMNS="120", LINES="45")
    assert (done.returncode, done.stderr, done.stdout.isascii()) == (0, "", True)


def test_a_dumb_terminal_gets_one_frame_on_request(url: str, tmp_path: Path) -> None:
    with terminal(tmp_path) as window:
        window.type(f"TERM=dumb {TOP} {url}", "Enter")
        window.wait_for("TERM=dumb has no full-screen view")


def test_several_daemons_and_one_that_does_not_answer(url: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--source=demo", "--set=node=gpu02") as second:
        urls = (url, f"http://{second.address}", "http://127.0.0.1:1")
        done = pulsed("top", "--once", *urls, COLUMNS="140", LINES="40")
        assert done.returncode == 0, done.stderr
        assert "2/3 daemons" in done.stdout
        assert "GPUs 16 |" in done.stdout
        assert "gpu02" in done.stdout
    done = pulsed("top", "--once", "http://127.0.0.1:1")
    assert done.returncode == 1
    assert "cannot reach http://127.0.0.1:1" in done.stderr


def test_selected_gpus(url: str) -> None:
    done = pulsed("top", "--once", "--gpus=1,3", url, COLUMNS="110", LINES="34")
    assert "GPUs 2/8" in done.stdout


def test_the_daemon_at_listen_is_found(daemon: Daemon) -> None:
    done = pulsed("top", "--once", f"--set=listen=[127.0.0.1:{daemon.port}]", COLUMNS="150", LINES="34")
    assert done.returncode == 0, done.stderr
    assert f"http://127.0.0.1:{daemon.port}" in done.stdout.splitlines()[0]


def test_an_own_source_without_a_daemon() -> None:
    done = pulsed("top", "--once", "--source=demo", COLUMNS="150", LINES="34")
    assert done.returncode == 0, done.stderr
    assert "local source" in done.stdout.splitlines()[0]
    assert "GPUs 8" in done.stdout
    done = pulsed("top", "--once", "--source=replay", "--set=source.replay.path=/nowhere", COLUMNS="150", LINES="34")
    assert "no GPUs" in done.stdout
    assert "/nowhere" in done.stdout
    assert (done.returncode, "/nowhere" in done.stderr) == (1, True)
    done = pulsed("top", "--once", "--source=demo", "--set=nonsense=1")
    assert done.returncode == 1
    assert "the local source did not start" in done.stderr
    assert "nonsense: unknown key" in done.stderr


def test_wrong_usage(url: str) -> None:
    for arguments, message in (
        ((url,), "stdin, stdout or stderr is not a terminal"),
        (("--source=demo", url), "--source configures a local source: leave out the URL"),
        (("--interval=0.1", url), "--interval is at least 250ms"),
        (("ftp://x", "--once"), "'ftp://x' is not the URL of a pulsed"),
    ):
        done = pulsed("top", *arguments)
        assert done.returncode == 2
        assert message in done.stderr


def test_a_remote_view_imports_no_layer_and_no_framework(url: str) -> None:
    program = f"""
import sys
from pulsed.cli import main
assert main(["top", "--once", "--interval=2s", {url!r}]) == 0
if "--app" in sys.argv:
    import pulsed.apps.top.app
found = {{name.split(".")[1] for name in sys.modules if name.startswith("pulsed.")}}
assert not found & {{"compute", "translate", "config", "collector", "server", "accounting", "attribution"}}, found
heavy = {{"fastapi", "pydantic", "uvicorn", "yaml", "psutil", "bcrypt"}} & set(sys.modules)
assert not heavy, heavy
assert ("textual" in sys.modules) == ("--app" in sys.argv)
"""
    for arguments in ((), ("--app",)):
        command = [sys.executable, "-c", program, *arguments]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=2 * SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr


def test_keys_in_a_real_terminal(url: str, tmp_path: Path) -> None:
    with terminal(tmp_path) as window:
        window.type(f"{TOP} {url}", "Enter")
        window.wait_for("GPUs 8")
        window.wait_for("[GPU 0]")
        window.type("j", "j", "Enter")
        window.wait_for("SM and pipes")
        window.wait_for("/2 H100")
        window.type(":plot", "Enter")
        window.wait_for("Real utilization 0..100 %")
        window.type(":job", "Enter")
        window.wait_for("job 4711")
        window.type("4")
        window.wait_for("last 10 min:")
        window.type("6")
        window.wait_for("answers")
        window.type("1")
        window.type("/gpu=3", "Enter")
        window.wait_for("GPUs 1/8")
        window.resize(200, 60)
        window.wait_for("NVLINK")
        assert window.value("alternate_on") == "1"
        window.type(":exit", "Enter")
        until(lambda: window.value("alternate_on") == "0")
        window.type("echo status $?", "Enter")
        window.wait_for("status 0")
        assert window.value("cursor_flag") == "1"
        assert window.value("mouse_any_flag") == "0"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_terminal_is_restored_after_a_signal(url: str, tmp_path: Path, number: signal.Signals) -> None:
    with terminal(tmp_path) as window:
        window.type(f"{TOP} {url}", "Enter")
        window.wait_for("GPUs 8")
        os.kill(child_of(window).pid, number)
        until(lambda: window.value("alternate_on") == "0")
        window.type("echo back", "Enter")
        window.wait_for("back")
        assert (window.value("cursor_flag"), window.value("mouse_any_flag")) == ("1", "0")


def test_the_terminal_is_restored_after_an_error(url: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "import sys\n"
        "from pulsed.cli import main\n"
        "from pulsed.apps.top.app import TopApp\n"
        "def fails(self): raise RuntimeError('broken on purpose')\n"
        "TopApp._tick = fails\n"
        f"sys.exit(main(['top', {url!r}]))\n"
    )
    with terminal(tmp_path) as window:
        window.type(f"{sys.executable} {tmp_path}/broken.py", "Enter")
        window.wait_for("broken on purpose")
        assert (window.value("alternate_on"), window.value("mouse_any_flag")) == ("0", "0")
        window.type("echo still", "Enter")
        window.wait_for("still")


def test_it_can_be_suspended(url: str, tmp_path: Path) -> None:
    with terminal(tmp_path) as window:
        window.type(f"{TOP} {url}", "Enter")
        window.wait_for("GPUs 8")
        window.type("C-z")
        window.wait_for("Stopped")
        assert (window.value("alternate_on"), window.value("mouse_any_flag")) == ("0", "0")
        window.type("fg", "Enter")
        window.wait_for("GPUs 8")
        window.type("q")
        until(lambda: window.value("alternate_on") == "0")


def test_colours(url: str, tmp_path: Path) -> None:
    with terminal(tmp_path, variables={"NO_COLOR": "1"}) as window:
        window.type(f"{TOP} {url}", "Enter")
        window.wait_for("GPUs 8")
        assert not re.search(r"\x1b\[[\d;]*\b(3[0-7]|38|9[0-7])\b", window.screen(colours=True))
    (tmp_path / "other").mkdir()
    with terminal(tmp_path / "other") as window:
        window.type(f"{TOP} --theme 16 {url}", "Enter")
        window.wait_for("GPUs 8")
        codes = re.findall(r"\x1b\[([\d;]+)m", window.screen(colours=True))
        assert any(re.search(r"\b(3[1-6]|9[1-6])\b", code) for code in codes)
        assert not any("38;2" in code for code in codes)


def test_a_signal_ends_the_view_after_its_terminal_is_gone(url: str) -> None:
    ours, theirs = os.openpty()
    command = [*TOP.split(), url]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        shown = b""
        while b"GPUs" not in shown:
            shown += os.read(ours, 65536)
        top = psutil.Process(process.pid)
        threads = top.num_threads()
        os.close(ours)
        until(lambda: top.num_threads() < threads)  # that of Textual's output; its next frames fill a queue
        time.sleep(2 * MIN_PAUSE_SECONDS)
        process.terminate()
        assert process.wait(SECONDS) == 128 + signal.SIGTERM


def test_the_own_source_ends_with_the_view(tmp_path: Path) -> None:
    with terminal(tmp_path) as window:
        window.type(f"{TOP} --source demo", "Enter")
        window.wait_for("GPUs 8")
        top = child_of(window)
        (own,) = [each for each in top.children(recursive=True) if "serve" in each.cmdline()]
        top.kill()
        until(lambda: not psutil.pid_exists(own.pid) or own.status() == psutil.STATUS_ZOMBIE)


def test_without_the_extra_its_installation_is_named(url: str, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(
        f"import sys\nsys.modules['textual'] = None\nfrom pulsed.cli import main\nsys.exit(main(['top', {url!r}]))\n"
    )
    with terminal(tmp_path) as window:
        window.type(f"{sys.executable} {tmp_path}/bare.py; echo status $?", "Enter")
        seen = window.wait_for("status 1")
        assert "pip install 'pulsed[top]'" in seen.replace("\n", "")


def child_of(window: Terminal) -> psutil.Process:
    """Return the process that the shell of a window runs."""
    (child,) = psutil.Process(int(window.value("pane_pid"))).children()
    return child
