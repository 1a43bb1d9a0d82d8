"""`pulsed doctor`: tells a person which sources work here, what follows from them, and how to get what is missing.

`machine` looks for GPUs, `derived` says what each result is made of, `supply` how to get what it lacks, `report` puts
it together, `words` says it to a person.
"""

from __future__ import annotations

import json
import logging
from typing import TextIO

from pulsed.commands.doctor.render import told
from pulsed.commands.doctor.report import examine
from pulsed.config import Config

__all__ = ["doctor"]


def doctor(config: Config, format: str, out: TextIO) -> int:
    """Print the report; returns the exit code: 0 if something can be served, 1 if nothing.

    Args:
        config: says what to look at.
        format: `table` or `json`.
        out: where to print.
    """
    readers = logging.getLogger("pulsed.reader")
    before = readers.level
    if config.log.level != "debug":
        readers.setLevel(logging.ERROR)  # what the sources warn of is in the report
    try:
        report = examine(config)
    finally:
        readers.setLevel(before)
    if format == "json":
        json.dump(report, out, indent=2)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for line in told(report))
    return 0 if report["can_serve"] else 1
