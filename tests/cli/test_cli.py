from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pulsed.cli import argument_parser
from pulsed.config.configuration import Config
from pulsed.config.settings import all_keys
from tests.support.daemon import environment, pulsed
from tests.test_printable import CONTROL


def test_help_imports_nothing_that_only_running_a_command_needs() -> None:
    code = "import sys, pulsed.cli; pulsed.cli.argument_parser(); print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"argparse", "pulsed.cli.options"} <= set(imported)
    heavy = {"asyncio", "json", "logging", "pulsed.config", "pulsed.present", "pydantic", "ssl", "urllib.request"}
    assert heavy & set(imported) == set()


def test_flags_of_the_configuration_name_its_keys() -> None:
    (commands,) = [each for each in argument_parser()._actions if isinstance(each, argparse._SubParsersAction)]
    flags = {action.dest for parser in commands.choices.values() for action in parser._actions}
    named = {dest.removeprefix("config.") for dest in flags if dest.startswith("config.")}
    assert named >= {"listen", "log.level", "web.config_file", "gpus"}
    assert named <= set(all_keys(Config))


def test_errors_have_no_control_characters() -> None:
    found = pulsed("check-config", "\x1b[2J\x9b1m\u202eno.yaml")
    assert found.returncode != 0
    assert "?[2J?1m?no.yaml" in found.stderr
    assert not CONTROL.search(found.stderr.replace("\n", ""))


@pytest.mark.slow
def test_a_page_on_a_terminal_has_no_control_characters(tmp_path: Path) -> None:
    page = tmp_path / "page.prom"
    page.write_text('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",modelName="\x1b[2J\x9b1m\u202eX"} 50\n')
    command = ["snapshot", "--source", "replay", "--set", f"source.replay.path={page}", "--format", "prometheus"]
    assert 'model="\\\\u001b[2J\\\\u009b1m\u202eX"' in pulsed(*command).stdout
    terminal, given = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "pulsed", *command], stdout=given, env=environment())
    os.close(given)
    shown = b""
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:  # how a terminal ends
        pass
    os.close(terminal)
    assert process.wait() == 0
    assert 'model="\\\\u001b[2J\\\\u009b1m?X"' in shown.decode()
    assert not CONTROL.search(shown.decode().replace("\r\n", ""))
