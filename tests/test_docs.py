"""What the documentation says is what the code says."""

from __future__ import annotations

import re
import shlex

import pytest

from pulsed.cli import main
from tools.generate_docs import ROOT
from tools.health_docs import health
from tools.metrics_docs import metrics

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_metrics_md_is_current() -> None:
    assert (ROOT / "METRICS.md").read_text(encoding="utf-8") == metrics(), "make docs"


def test_health_md_is_current() -> None:
    assert (ROOT / "HEALTH.md").read_text(encoding="utf-8") == health(), "make docs"


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: object) -> None:
    text = (ROOT / str(page)).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert "://" in target or (ROOT / target).exists(), target


def test_every_command_in_the_readme_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {shlex.split(line)[1] for line in re.findall(r"^pulsed .*$", README, re.MULTILINE)}
    assert commands >= {"serve", "snapshot", "export", "check-config"}
    for command in commands:
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert capsys.readouterr().out
