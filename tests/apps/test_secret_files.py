"""`pulsed check-config` and files with secrets that all users can read."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pulsed.apps.files import run_check_config

HASH = "$2b$10$" + "a" * 53


def warnings(file: Path | None, web: Path | None, capsys: pytest.CaptureFixture[str], *, syntax_only: bool) -> str:
    names = {"file": str(file or ""), "web_config_file": str(web or "")}
    assert run_check_config(argparse.Namespace(**names, syntax_only=syntax_only)) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        ("source: {exporter: {targets: [http://a:9400/metrics]}}", False),
        ("source: {exporter: {targets: [http://a:9400/metrics], username: a, password: geheim}}", True),
        ("source: {exporter: {targets: ['http://me:geheim@a:9400/metrics']}}", True),
    ],
)
def test_a_configuration_with_secrets_is_not_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, is_secret: bool
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    file.chmod(0o644)
    expected = f"warning: {file}: it has secrets, and all users can read it; run chmod o-r on it\n"
    assert warnings(file, None, capsys, syntax_only=False).count(expected) == is_secret
    assert warnings(file, None, capsys, syntax_only=True) == ""
    file.chmod(0o640)
    assert warnings(file, None, capsys, syntax_only=False) == ""


def test_files_of_secrets_are_not_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token, file, web = tmp_path / "token", tmp_path / "config.yaml", tmp_path / "web.yml"
    token.write_text("geheim")
    file.write_text(f"source: {{exporter: {{targets: [http://a:9400/metrics], bearer_token_file: {token}}}}}")
    web.write_text(f"basic_auth_users: {{prometheus: {HASH}}}")
    for each in (token, file, web):
        each.chmod(0o644)
    lines = warnings(file, web, capsys, syntax_only=False)
    assert f"warning: {token}: it has secrets" in lines
    assert f"warning: {web}: it has secrets" in lines
    assert f"warning: {file}: it has secrets" not in lines
    assert "geheim" not in lines
