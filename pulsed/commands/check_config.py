"""`pulsed check-config`: validates a configuration file, and the web configuration file that it names."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from pulsed.config.load import check
from pulsed.errors import UsageError
from pulsed.server.reloader import check as check_web


def check_config(file: str | None, web_config_file: str | None, out: TextIO) -> int:
    """Print `FILE: valid` for each file; return the exit code.

    Args:
        web_config_file: a web configuration file; by default the one that `file` names.

    Raises:
        ConfigError: a file is not valid; the message has one line per problem.
        UsageError: no file is given.
    """
    if not file and not web_config_file:
        raise UsageError("check-config: no file is given", "See `pulsed check-config --help`")
    if file:
        web_config_file = web_config_file or check(Path(file)).web.config_file
    if web_config_file:
        check_web(Path(web_config_file))
    out.writelines(f"{name}: valid\n" for name in (file, web_config_file) if name)
    return 0
