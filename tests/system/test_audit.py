"""The audit of pinned packages, with pip-audit itself where no advisories are needed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tools import audit

SAFE = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "not found on PyPI"}
HOLE = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["3"]}]}


def answering(monkeypatch: pytest.MonkeyPatch, output: str, error: str = "") -> None:
    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, output, error)

    monkeypatch.setattr(subprocess, "run", run)


def test_a_hole_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answering(monkeypatch, json.dumps({"dependencies": [SAFE, SKIPPED, HOLE], "fixes": []}))
    assert audit.main() == 1
    printed = capsys.readouterr().out
    assert "deploy/constraints.txt: 2 packages audited, 1 known holes" in printed
    assert "HOLE: c 2: PYSEC-1, CVE-1; fixed in: 3" in printed
    assert "NOT AUDITED: 1 packages, the first: b: not found on PyPI" in printed


@pytest.mark.parametrize(
    ("output", "error", "words"),
    [
        ("", "Traceback\nConnectionError: no network", "NOT AUDITED: ConnectionError: no network"),
        ("", "", "NOT AUDITED: pip-audit printed nothing"),
        (json.dumps({"dependencies": [SAFE, SKIPPED]}), "", "1 packages audited, 0 known holes"),
    ],
)
def test_without_advisories_it_states_what_was_not_audited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str, error: str, words: str
) -> None:
    answering(monkeypatch, output, error)
    assert audit.main() == 0
    assert words in capsys.readouterr().out


def test_a_file_without_hashes_is_not_audited(tmp_path: Path) -> None:
    (file := tmp_path / "constraints.txt").write_text("annotated-doc==0.0.7\n")
    report = audit.pip_audit(file)
    assert isinstance(report, str)
    assert "hash" in report
