"""The process that fuzzes one target: `python -m tools.fuzz.child NAME [libFuzzer's options] [folders of inputs]`."""

from __future__ import annotations

import logging
import random
import sys

import atheris

logging.disable(logging.CRITICAL)
with atheris.instrument_imports(include=["pulsed"]):
    from tools.fuzz.targets import load

    _TARGET = load(sys.argv.pop(1))


def _check(data: bytes) -> None:
    _TARGET.check(data)


def _mutate(data: bytes, max_size: int, seed: int) -> bytes:
    chance = random.Random(seed)
    own = _TARGET.mutate(data, chance) if data and chance.random() < 0.5 else None
    mutated: bytes = atheris.Mutate(data, max_size) if own is None or len(own) > max_size else own
    return mutated


atheris.Setup(sys.argv, _check, custom_mutator=_mutate)
atheris.Fuzz()
