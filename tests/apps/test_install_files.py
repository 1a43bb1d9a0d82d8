"""`pulsed install-files`, and the man pages and completions that it writes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsed.cli import COMMANDS, main
from tests.support.tools import tool

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files") / "made"
    assert main(["install-files", str(folder)]) == 0
    return folder


def test_the_files_are_those_of_the_checkout(files: Path) -> None:
    for copy, source in (
        ("systemd/pulsed.service", "systemd/pulsed.service"),
        ("slurm/prolog.sh", "deploy/slurm/prolog.sh"),
        ("health/check_pulsed.sh", "deploy/health/check_pulsed.sh"),
        ("prometheus/rules/pulsed.yaml", "deploy/prometheus/rules/pulsed.yaml"),
        ("grafana/fleet.json", "deploy/grafana/fleet.json"),
        ("docs/health.md", "docs/health.md"),
        ("constraints.txt", "deploy/constraints.txt"),
        ("config.example.yaml", "config.example.yaml"),
    ):
        assert (files / copy).read_bytes() == (ROOT / source).read_bytes()
        assert (files / copy).stat().st_mode & 0o111 == (0o111 if copy.endswith(".sh") else 0)


def test_existing_files_are_replaced(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "systemd/pulsed.service").write_text("old")
    assert main(["install-files", str(files)]) == 0
    assert (files / "systemd/pulsed.service").read_bytes() == (ROOT / "systemd/pulsed.service").read_bytes()
    assert f"{files}/systemd\n" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["install-files", str(tmp_path / "file")]) == 1
    assert f"cannot write {tmp_path}/file" in capsys.readouterr().err


def test_every_command_has_a_man_page_that_roff_accepts(files: Path) -> None:
    pages = sorted((files / "man/man1").iterdir())
    assert {page.name for page in pages} == {"pulsed.1", *(f"pulsed-{name}.1" for name in COMMANDS)}
    mandoc = tool("mandoc", "mandoc")
    done = subprocess.run([mandoc, "-T", "lint", "-W", "error", *pages], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    page: list[str | Path] = [mandoc, "-T", "ascii", files / "man/man1/pulsed-job.1"]
    text = subprocess.run(page, capture_output=True, text=True, check=True).stdout
    assert "default: http://localhost:9401" in text
    assert "E\bEX\bXI\bIT\bT" in text


def bash(files: Path, *words: str) -> list[str]:
    script = 'source "$0"; COMP_WORDS=(pulsed "$@"); COMP_CWORD=$#; _pulsed; printf "%s\\n" "${COMPREPLY[@]}"'
    command: list[str | Path] = ["bash", "-c", script, files / "completions/bash/pulsed", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=files)
    return done.stdout.split()


def fish(files: Path, *words: str) -> list[str]:
    script = f"source {files / 'completions/fish/pulsed.fish'}; complete -C '{' '.join(['pulsed', *words])}'"
    command = [tool("fish", "fish"), "--no-config", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=files, env={"HOME": str(files)})
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("complete", [bash, fish])
def test_completions(files: Path, complete: Callable[..., list[str]]) -> None:
    assert complete(files, "sn") == ["snapshot"]
    assert "--format" in complete(files, "job", "--fo")
    assert set(complete(files, "job", "--format", "")) >= {"json", "js1"}
    assert "constraints.txt" in complete(files, "serve", "--config.file", "cons")
    assert complete(files, "job", "--nodes", "") == []


def test_completion_of_zsh_is_sound(files: Path) -> None:
    subprocess.run([tool("zsh", "zsh"), "-n", files / "completions/zsh/_pulsed"], check=True)
