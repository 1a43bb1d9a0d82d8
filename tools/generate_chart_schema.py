"""Writes the keys of pulsed's configuration into helm/pulsed/values.schema.json, so that `helm install` refuses others,
and values that the daemon would refuse.

Run as `python -m tools.generate_chart_schema`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulsed.config.configuration import Config
from pulsed.config.settings import ListKind, Settings, TableKind, keys_of

FILE = Path(__file__).resolve().parents[1] / "helm" / "pulsed" / "values.schema.json"

SET_BY_CHART = (
    "listen",
    "node",
    "source.kind",
    "source.exporter.targets",
    "source.exporter.discovery",
    "source.exporter.kubernetes",
    "source.dcgmi.host",
    "web.config_file",
    "web.systemd_socket",
    "attribution.workloads",
)
"""Keys of the daemon that follow from other values."""

_SWITCH = "|".join(
    "".join(f"[{letter}{letter.upper()}]" for letter in word)
    for word in ("true", "t", "yes", "y", "on", "false", "f", "no", "n", "off")
)
_DURATION = r"^ *([0-9]{1,12}(\.[0-9]+)?(ms|s|m|h|d))+ *$"
_GPU_COUNT = r"^auto$|^ *0*[1-9][0-9]* +[^ ,][^,]*(, *0*[1-9][0-9]* +[^ ,][^,]*)*$"
_SIZE = r"^ *[0-9]{1,15}(\.[0-9]+)? ?([kKMG]?B|[KMG]iB?)? *$"

KINDS: Mapping[str, Mapping[str, Any]] = {
    "boolean": {"anyOf": [{"enum": [True, False, 0, 1, None]}, {"type": "string", "pattern": f"^({_SWITCH}|0|1)$"}]},
    "int": {"type": ["integer", "null"]},
    "count": {"type": ["integer", "null"], "minimum": 0},
    "positive": {"type": ["integer", "null"], "minimum": 1},
    "number": {"type": ["number", "null"], "minimum": 0},
    "ratio": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "duration": {"type": ["number", "string", "null"], "exclusiveMinimum": 0, "pattern": _DURATION},
    "duration or 0": {"type": ["number", "string", "null"], "minimum": 0, "pattern": f"{_DURATION}|^0$"},
    "gpu count": {"type": ["integer", "string", "null"], "minimum": 1, "pattern": _GPU_COUNT},
    "size": {"type": ["integer", "string", "null"], "minimum": 1, "pattern": _SIZE},
}
"""Schemas of values by the name of their kind. They refuse nothing that the daemon takes; it checks the rest."""

URLS: Mapping[str, Mapping[str, Any]] = {
    name: {"type": ["string", "null"], "pattern": r"^https?://[^\s/]+"} for name in ("url", "receiver", "list")
}
"""The same of URLs, which are texts."""

_YAML_SWITCHES = {"on", "off", "yes", "no"}
"""Words that Helm's YAML turns into booleans."""


def document() -> str:
    """Return the schema of the values with the current keys."""
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    values = schema["properties"]
    values["config"] = _section(Config, SET_BY_CHART)
    schema["definitions"] |= {_definition(name): dict(kind) for name, kind in [*KINDS.items(), *URLS.items()]}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _section(section: type[Settings], refused: tuple[str, ...], prefix: str = "") -> dict[str, Any]:
    """Return the schema of a section; a key that is null is as one that is not given."""
    keys: dict[str, Any] = {}
    for name, key in keys_of(section).items():
        path = prefix + name
        if path in refused:
            keys[name] = False
        elif key.section:
            keys[name] = _section(key.section, refused, f"{path}.")
        elif (
            key.kind and key.kind.name in KINDS.keys() | URLS.keys() and not isinstance(key.kind, ListKind | TableKind)
        ):
            keys[name] = {"$ref": f"#/definitions/{_definition(key.kind.name)}"}
        elif key.words and not _YAML_SWITCHES.intersection(key.words) and not key.kind:
            keys[name] = {"enum": [*key.words, None]}
        else:
            keys[name] = True
    return {"type": ["object", "null"], "additionalProperties": False, "properties": keys}


def _definition(kind: str) -> str:
    """Return the name of the definition of a kind."""
    return f"config {kind}".replace(" ", "_")


def main() -> None:
    """Write the file."""
    FILE.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
