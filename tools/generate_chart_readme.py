"""Writes the table of values in helm/pulsed/README.md from the comments of values.yaml.

Run as `python -m tools.generate_chart_readme`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[1] / "helm" / "pulsed"
BEGIN, END = "<!-- values: begin -->\n", "<!-- values: end -->\n"
LINE = re.compile(r"(?P<indent> *)(?:# ?(?P<comment>.*)|(?P<key>[A-Za-z]\w*):.*|.*)")


def described() -> dict[str, str]:
    """The comment above every key of values.yaml, by its dotted path; keys without one are left out."""
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    words: list[str] = []
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        match = LINE.fullmatch(line)
        assert match
        if (comment := match["comment"]) is not None:
            words.append(comment)
            continue
        if key := match["key"]:
            indent = len(match["indent"])
            path = [*((at, name) for at, name in path if at < indent), (indent, key)]
            if words:
                found[".".join(name for _, name in path)] = " ".join(words)
        words = []
    return found


def leaves(values: dict[str, Any], texts: dict[str, str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is set as a whole: a scalar, a list, or a mapping whose keys have no comments of their own."""
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and any(text.startswith(f"{path}.") for text in texts):
            yield from leaves(value, texts, f"{path}.")
        else:
            yield path, value


def values_list() -> str:
    """Return the list of values with their defaults, in the order of the file."""
    texts = described()
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = []
    for path, value in leaves(values, texts):
        text = json.dumps(value)
        name = f"`{path}: {text}`" if len(text) <= 120 else f"`{path}` (default: see values.yaml)"
        rows.append(f"* {name}: {texts[path]}")
    return "\n".join(rows) + "\n"


def page() -> str:
    """README.md with the table as it must be."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}{values_list()}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    (CHART / "README.md").write_text(page(), encoding="utf-8")
