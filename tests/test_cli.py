from __future__ import annotations

import subprocess
import sys


def test_help_imports_nothing_that_only_running_a_command_needs() -> None:
    code = "import sys, pulsed.cli; pulsed.cli.argument_parser(); print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"argparse", "pulsed.commands.serve", "pulsed.commands.top"} <= set(imported)
    heavy = {"asyncio", "json", "logging", "pulsed.config", "pulsed.present", "pydantic", "ssl", "urllib.request"}
    assert heavy & set(imported) == set()
