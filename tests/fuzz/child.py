"""The process that fuzzes one target: `python -m tests.fuzz.child NAME [libFuzzer's options] [folders of inputs]`."""

from __future__ import annotations

import logging
import sys

import atheris

logging.disable(logging.CRITICAL)
with atheris.instrument_imports(include=["pulsed"]):
    from tests.fuzz.targets import load

    _TARGET = load(sys.argv.pop(1))


def _check(data: bytes) -> None:
    _TARGET.check(data)


atheris.Setup(sys.argv, _check)
atheris.Fuzz()
