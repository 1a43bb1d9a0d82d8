"""`pulsed rules`: prints recording and alerting rules for Prometheus, or writes them to a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TextIO

from pulsed.config import Config
from pulsed.errors import PulsedError
from pulsed.present.promql.rule_set import RuleSelection, document


class RulesNotWritten(PulsedError):
    """The file of the rules cannot be written."""


def rules(config: Config, selection: RuleSelection, file: str, out: TextIO) -> int:
    """Write the rules; return the exit code.

    Args:
        config: weights, thresholds, peaks and target of scaling that the rules are made from.
        file: where to write them; `-` for `out`.

    Raises `RulesNotWritten` if the file cannot be written.
    """
    text = document(config.compute_settings(), replace(selection, scale_target=config.publish.scale_target))
    if not file or file == "-":
        out.write(text)
        return 0
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise RulesNotWritten(f"cannot write {file}: {error.strerror}", "Name another file") from None
    return 0
