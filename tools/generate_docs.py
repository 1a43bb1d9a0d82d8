"""Writes CONFIGURATION.md, config.example.yaml and METRICS.md from the code's own tables.

Run as `python -m tools.generate_docs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import get_args

from pydantic.fields import FieldInfo

from pulsed.config import Config
from pulsed.config.section import Section, keys, section_of
from pulsed.config.values import notation_of
from tests import rule_files
from tools.health_docs import health
from tools.metrics_docs import metrics

ROOT = Path(__file__).parents[1]
WIDTH = 100

EXAMPLE_HEAD = """\
# The configuration of pulsed. Every key is here, commented out, with its default; a key that is unset by default, and a
# weight, with an example. Take the # away from the keys that you change. CONFIGURATION.md tells more.
"""

MANUAL_HEAD = """\
# Configuration

pulsed needs no configuration. What is configured comes from, in this order:

1. a flag of its own (`--log.level debug`, `--web.listen-address :9401`, `--source demo`);
2. `--set key.path=value`, for any key; the value is YAML, and of several the last one counts;
3. the environment: `PULSED_` and the key in capitals, its parts joined by two underscores, as in
   `PULSED_SOURCE__EXPORTER__TARGETS='[http://a:9400/metrics, http://b:9400/metrics]'`. The value is YAML, but a
   `<secret>` is taken as it is. Unknown variables are errors, except those that Kubernetes sets for a Service named
   `pulsed`;
4. the file named by `--config.file FILE`, or else by the environment variable `PULSED_CONFIG_FILE`;
5. the default.

The file is YAML. Mappings are merged key by key, a list replaces the whole list below it, and a key without a value has
its default. Unknown and duplicate keys are errors. Names of files that are relative count from the folder of the
configuration file; elsewhere from the working directory.

`pulsed check-config FILE` names every mistake in a file, with line, key, value and what is allowed.
[config.example.yaml](config.example.yaml) has every key with its default.

## Notation

Brackets mean that a key may be left out, which is all keys. `(a|b)` is one of these words.

| placeholder | is |
|---|---|
"""


def manual() -> str:
    """The text of CONFIGURATION.md."""
    notations = {
        n.name: n.allowed for field in keys(Config).values() if not section_of(field) and (n := notation_of(field))
    }
    table = "".join(f"| `<{name}>` | {allowed} |\n" for name, allowed in sorted(notations.items()))
    return f"{MANUAL_HEAD}{table}\n## Keys\n" + "".join(_chapter(Config, ""))


def example() -> str:
    """The text of config.example.yaml."""
    return EXAMPLE_HEAD + "".join(_example(Config, 0))


def _chapter(section: type[Section], name: str) -> Iterator[str]:
    yield f"\n### `{name}`\n\n{section.__doc__}\n\n```yml\n" if name else "\n```yml\n"
    yield "\n".join(_entry(key, field, f"{name}.{key}".strip(".")) for key, field in section.model_fields.items())
    yield "```\n"
    for key, field in section.model_fields.items():
        if inner := section_of(field):
            yield from _chapter(inner, f"{name}.{key}".strip("."))


def _entry(key: str, field: FieldInfo, path: str) -> str:
    if section_of(field):
        return f"{_comment(field, '')}[ {key}: <{path}> ]\n"
    notation = notation_of(field)
    kind = f"<{notation.name}>" if notation else f"({'|'.join(get_args(field.annotation))})"
    default = "" if field.default is None else f" | default = {_written(field, field.default)}"
    return f"{_comment(field, '')}[ {key}: {kind}{default} ]\n"


def _example(section: type[Section], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for key, field in section.model_fields.items():
        yield f"\n{_comment(field, indent)}"
        if inner := section_of(field):
            yield f"{indent}{key}:\n"
            yield from _example(inner, depth + 1)
        else:
            value = field.examples[0] if field.examples else field.default
            yield f"{indent}#{key}: {_written(field, value)}\n"


def _comment(field: FieldInfo, indent: str) -> str:
    return "".join(f"{indent}# {line}\n" for line in wrap(field.description or "", WIDTH - len(indent)))


def _written(field: FieldInfo, value: object) -> str:
    """A value as YAML, in the notation of its kind."""
    notation = notation_of(field)
    if isinstance(value, tuple):
        written = [_written(field, item) for item in value]
        return written[0] if len(written) == 1 else f"[{', '.join(written)}]"
    if isinstance(value, str):
        return value if re.match(r"[:/A-Za-z0-9]", value) else json.dumps(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return json.dumps(value)
    if notation and notation.name == "duration":
        return f"{value:g}s"
    if notation and notation.name == "size":
        return f"{value // 2**20}MiB" if isinstance(value, int) and value % 2**20 == 0 else str(value)
    return f"{value:.12g}"


if __name__ == "__main__":
    (ROOT / "CONFIGURATION.md").write_text(manual(), encoding="utf-8")
    (ROOT / "config.example.yaml").write_text(example(), encoding="utf-8")
    (ROOT / "METRICS.md").write_text(metrics(), encoding="utf-8")
    (ROOT / "HEALTH.md").write_text(health(), encoding="utf-8")
    for file in rule_files.FILES:
        (ROOT / file).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / file).write_text(rule_files.text(file), encoding="utf-8")
