"""What scripts use that run inside a booted tree, where systemd is PID 1. Has nothing but Python's library."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

FOLDER = Path("/check")
"""What the test has put into the tree."""

SECONDS = 60.0


def run(*words: str | Path, check: bool = True) -> str:
    done = subprocess.run(words, capture_output=True, text=True, cwd=FOLDER, check=False)
    if check and done.returncode:
        journal = run("journalctl", "-u", "pulsed*", "-n", "30", check=False) if words[0] == "systemctl" else ""
        raise AssertionError(f"{' '.join(map(str, words))}: {done.returncode} {done.stdout}{done.stderr}{journal}")
    return done.stdout.strip()


def shown(name: str) -> str:
    """Return a property of the service."""
    return run("systemctl", "show", "--property", name, "--value", "pulsed")


def page(path: str = "/metrics", port: int = 9401) -> str:
    with urllib.request.urlopen(f"http://localhost:{port}{path}", timeout=10) as answer:
        body: bytes = answer.read()
    return body.decode()


def value(name: str) -> float:
    (found,) = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page(), re.MULTILINE)[:1]
    return float(found)


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            if holds():
                return
        except (OSError, ValueError):
            pass
        if time.monotonic() > deadline:
            raise AssertionError(
                f"{what} did not happen:\n{run('journalctl', '-u', 'pulsed', '-n', '30', check=False)}"
            )
        time.sleep(0.1)


def serves() -> bool:
    return "pulsed_build_info" in page()


def documented(table: str, task: str) -> str:
    """Return the first command in the row of a table of a document whose first column begins with a text."""
    (command,) = re.findall(rf"^\|{re.escape(task)}[^|]*\|[^|`]*`([^`]+)`", table, re.MULTILINE)
    return str(command)


def refuse_wrong_file(settings: Path, good: str) -> None:
    """A running daemon refuses a wrong file: the reload fails, and the status names the key."""
    settings.write_text(good + "sauce: 1\n")
    done = subprocess.run(["systemctl", "reload", "pulsed"], capture_output=True, check=False)
    assert done.returncode != 0, "systemctl reload of a wrong file"
    until(lambda: value("pulsed_config_last_reload_successful") == 0, "the refusal")
    assert "sauce" in shown("StatusText"), shown("StatusText")


def wrong_start(settings: Path, good: str, seconds: float = 20.0) -> str:
    """A start with a wrong file backs off; the journal has the error as an error. The right file starts again."""
    settings.write_text(good + "sauce: 1\n")
    run("systemctl", "reset-failed", "pulsed")
    begin = time.strftime("%Y-%m-%d %H:%M:%S")
    run("systemctl", "restart", "pulsed", check=False)
    time.sleep(seconds)
    journal = ("journalctl", "-u", "pulsed", "--since", begin, "--output=cat", "--quiet")
    assert "sauce" in run(*journal, "-p", "err")
    starts = run(*journal).count("Starting pulsed")
    assert 1 <= starts <= seconds / 5.0 + 1.0, starts
    settings.write_text(good)
    run("systemctl", "reset-failed", "pulsed")
    run("systemctl", "restart", "pulsed")
    until(serves, "the page")
    assert "sauce" not in shown("StatusText")
    return f"{starts} starts in {seconds:g} s"


def never_refused_while(restart: Callable[[], object], seconds: float = 5.0) -> str:
    """Restart; meanwhile no connection may be refused."""
    restart()
    answers = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            answers += serves()
        except urllib.error.URLError as error:
            assert not isinstance(error.reason, ConnectionRefusedError), "a connection was refused"  # noqa: PT017
        except OSError:
            pass  # a stopping process drops a request that it has accepted
    assert answers
    return f"{answers} answers, none refused"


def enable_socket(readme: str) -> str:
    """Run the README's command on the running service: from then on no connection is refused during a restart."""
    assert run("systemctl", "is-active", "pulsed") == "active"
    run("sh", "-c", documented(readme, "lose no scrape during a restart"))
    until(serves, "the page")
    assert run("systemctl", "is-active", "pulsed.socket") == "active"
    return never_refused_while(lambda: run("systemctl", "restart", "--no-block", "pulsed"))


def report(steps: Sequence[Callable[[], str]]) -> None:
    """Run the steps in order; write a line for each."""
    for step in steps:
        try:
            line = {"step": step.__name__, "ok": True, "seen": step()}
        except Exception as error:  # noqa: BLE001 - every step is reported, whatever ends it
            line = {"step": step.__name__, "ok": False, "seen": f"{type(error).__name__}: {error}"}
        with (FOLDER / "report").open("a") as file:
            file.write(json.dumps(line) + "\n")
