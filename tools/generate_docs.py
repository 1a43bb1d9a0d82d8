"""Write the generated documents, config.example.yaml and the rule files from the code's tables.

Run as `python -m tools.generate_docs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill, wrap

from pulsed.compute.peaks import PRACTICAL_PEAKS
from pulsed.config.configuration import Config
from pulsed.config.settings import Entry, Key, Settings, all_keys, keys_of
from tests.support import rule_files
from tools.health_docs import health
from tools.metrics_docs import metrics

ROOT = Path(__file__).parents[1]
PAGE_WIDTH, EXAMPLE_WIDTH = 120, 100

EXAMPLE_HEAD = """\
# Every configuration key with its default, or with an example if it is unset by default. Uncomment what you change.
# docs/configuration.md describes the notation.
"""

MANUAL_HEAD = """\
# Configuration

```sh
pulsed check-config /etc/pulsed/config.yaml   # reports every mistake
pulsed serve --config.file /etc/pulsed/config.yaml --set source.interval=5s
```

pulsed needs no configuration. [config.example.yaml](../config.example.yaml) has every key with its default. The first
of these that sets a key wins:

1. its flag, such as `--log.level debug`, `--web.listen-address :9401`, `--source demo`;
2. the last `--set key.path=value`, with a YAML value;
3. the environment: `PULSED_SOURCE__EXPORTER__TARGETS='[http://a:9400/metrics, http://b:9400/metrics]'`;
4. the YAML file of `--config.file FILE` or `PULSED_CONFIG_FILE`;
5. the default.

Mappings are merged, lists replaced; a list of one value needs no brackets. Unknown and duplicate keys, and unknown
variables, are errors. File names are relative to the configuration file.

Values: a count is from 0, a positive from 1, a ratio from 0 to 1. Others:

"""

EXPLAINED = ("address", "duration", "family", "gpu count", "gpus", "size", "time")
"""Placeholders in the list of notations; the descriptions or defaults of the keys of others show the form."""

SATURATION = "compute.saturation"
UNCOMMENTED = ("compute.real_utilization.weights", "compute.workload.thresholds")
"""Chapters whose introduction describes all keys."""


def manual() -> str:
    """Return the text of docs/configuration.md."""
    notations = {key.kind.name: key.kind.allowed for key in all_keys(Config).values() if key.kind}
    placeholders = "".join(
        f"* {name}: {notations[name].removesuffix('; one or a list of them').replace('*', chr(92) + '*')}\n"
        for name in EXPLAINED
    )
    return f"{MANUAL_HEAD}{placeholders}\n## Keys\n" + "".join(_chapter(Config, "", ""))


def example() -> str:
    """Return the text of config.example.yaml."""
    return EXAMPLE_HEAD + "".join(_example(Config, 0, set()))


def _chapter(section: type[Settings], name: str, description: str) -> Iterator[str]:
    """Yield a section's keys with values, then its sections; sections of one class share a chapter.

    Args:
        section: its class.
        name: its key, with dots; empty for the whole configuration.
        description: its meaning.
    """
    values = {key: field for key, field in keys_of(section).items() if not field.section}
    if values:
        introduction = "" if re.fullmatch(r"(Source|For) `[^`]*`\.", description) else f"\n{_filled(description)}"
        yield f"\n### `{name}`\n{introduction}" if name else ""
        yield "\n"
        yield from _kinds(values) if name.startswith(UNCOMMENTED) else _entries(values)
    if name == SATURATION:
        yield from _peaks()
    alike: dict[type[Settings], list[str]] = {}
    for key, field in keys_of(section).items():
        if inner := field.section:
            alike.setdefault(inner, []).append(key)
    for inner, names in alike.items():
        key = names[0] if len(names) == 1 else f"({'|'.join(names)})"
        text = description if len(names) > 1 else keys_of(section)[key].description
        yield from _chapter(inner, f"{name}.{key}".strip("."), text)


def _peaks() -> Iterator[str]:
    """Yield the table of practical peaks; resources with the same peak share a row."""
    rows: dict[tuple[str, float], list[str]] = {}
    for peak in PRACTICAL_PEAKS:
        rows.setdefault((peak.architecture, peak.ratio), []).append(f"`{peak.resource}`")
    yield "\n|architecture|resources|practical peak|\n|-|-|-|\n"
    for (architecture, ratio), resources in rows.items():
        yield f"|`{architecture}`|{' '.join(resources)}|{ratio:g}|\n"


def _entries(keys: Mapping[str, Key]) -> Iterator[str]:
    """Yield a table with a row for each key: its kind of value, default and description."""
    yield "|key|value|default|meaning|\n|-|-|-|-|\n"
    for key, field in keys.items():
        default = "" if field.default is None else f"`{_written(field, field.default)}`".replace("|", "\\|")
        default = default if len(default) < 100 else "[many](../config.example.yaml)"
        kind = field.kind.name if field.kind else "<br>".join(f"`{word}`" for word in field.words)
        yield f"|`{key}`|{kind}|{default}|{_linked(field.description)}|\n"


def _kinds(keys: Mapping[str, Key]) -> Iterator[str]:
    """Yield a line for each kind of value: its keys and their defaults."""
    alike: dict[str, list[str]] = {}
    for key, field in keys.items():
        default = "" if field.default is None else f" {_written(field, field.default)}"
        alike.setdefault(_kind(field), []).append(f"`{key}`{default}")
    for kind, names in alike.items():
        yield _filled(f"* `{kind}`: {', '.join(names)}", "  ")


def _kind(field: Key) -> str:
    return f"<{field.kind.name}>" if field.kind else f"({'|'.join(field.words)})"


def _filled(text: str, indent: str = "") -> str:
    """Return a text in lines, with links to the documents that it names."""
    return (
        fill(_linked(text), PAGE_WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False) + "\n"
    )


def _linked(text: str) -> str:
    return re.sub(r"\bdocs/(\w+\.md)\b", r"[\1](\1)", text)


def _example(section: type[Settings], depth: int, described: set[type[Settings]]) -> Iterator[str]:
    """Yield the keys of a section; those of a class that was described before have no comments."""
    indent = "  " * depth
    again = section in described
    described.add(section)
    for key, field in keys_of(section).items():
        yield "" if again else f"\n{_comment(field, indent)}"
        if inner := field.section:
            yield f"{indent}{key}:\n"
            yield from _example(inner, depth + 1, described)
        else:
            value = field.default if field.example is None else field.example
            yield f"{indent}#{key}: {_written(field, value)}\n"


def _comment(field: Key, indent: str) -> str:
    return "".join(
        f"{indent}# {line}\n" for line in wrap(field.description, EXAMPLE_WIDTH - len(indent), break_on_hyphens=False)
    )


def _written(field: Key, value: object) -> str:
    """Return a value as YAML, in the notation of its kind."""
    notation = field.kind
    if isinstance(value, Entry):
        return _written(field, value.written)
    if isinstance(value, tuple):
        written = [json.dumps(item) if "," in str(item) else _written(field, item) for item in value]
        return written[0] if len(written) == 1 else f"[{', '.join(written)}]"
    if isinstance(value, str):
        return value if re.match(r"[:/A-Za-z0-9]", value) else json.dumps(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return json.dumps(value)
    if notation and notation.name.startswith("duration"):
        return f"{value / 86400.0:g}d" if value >= 86400.0 else f"{value:g}s"
    if notation and notation.name == "size":
        return f"{value // 2**20}MiB" if isinstance(value, int) and value % 2**20 == 0 else str(value)
    return f"{value:.12g}"


if __name__ == "__main__":
    (ROOT / "docs/configuration.md").write_text(manual(), encoding="utf-8")
    (ROOT / "config.example.yaml").write_text(example(), encoding="utf-8")
    (ROOT / "docs/metrics.md").write_text(metrics(), encoding="utf-8")
    (ROOT / "docs/health.md").write_text(health(), encoding="utf-8")
    for file in rule_files.FILES:
        (ROOT / file).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / file).write_text(rule_files.text(file), encoding="utf-8")
