"""A Dockerfile, read as far as the tests of ours need it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage.

    Attributes:
        base: what it is `FROM`.
        name: its name.
        steps: its instructions in order: the word in capitals, and the rest of the line.
    """

    base: str
    name: str
    steps: tuple[tuple[str, str], ...]

    def all(self, word: str) -> list[str]:
        """What follows every instruction of that word."""
        return [rest for instruction, rest in self.steps if instruction == word]

    def last(self, word: str) -> str:
        """What follows the last instruction of that word, which is the one that counts."""
        return self.all(word)[-1]

    def exec_form(self, word: str) -> list[str]:
        """The arguments of the last such instruction; fails unless they are a JSON list, which needs no shell."""
        text = self.last(word)
        arguments: list[str] = json.loads(text[text.index("[") :])
        return arguments


def stages(path: Path) -> tuple[Stage, ...]:
    """Read a Dockerfile."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    text = re.sub(r"\\\n\s*", "", text)
    found: list[tuple[str, str, list[tuple[str, str]]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found.append((base, name, []))
        elif found:
            found[-1][2].append((word, rest))
    return tuple(Stage(base, name, tuple(steps)) for base, name, steps in found)
