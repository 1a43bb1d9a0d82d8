"""Writes the keys of pulsed's configuration into helm/pulsed/values.schema.json, so that `helm install` refuses others.

Run as `python -m tools.generate_chart_schema`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pulsed.configuration import Config
from pulsed.settings import Settings, keys_of

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

SET_BY_ADAPTER = (
    "listen",
    "web.config_file",
    "adapter.selectors",
    "adapter.namespace",
    "adapter.container_port",
    "adapter.scheme",
    "adapter.route_prefix",
    "adapter.client_names",
)
"""Those of the adapter."""

_YAML_SWITCHES = {"on", "off", "yes", "no"}
"""Words that Helm's YAML turns into booleans."""


def document() -> str:
    """Return the schema of the values with the current keys."""
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    values = schema["properties"]
    values["config"] = _section(Config, SET_BY_CHART)
    values["adapter"]["properties"]["config"] = _section(Config, SET_BY_ADAPTER)
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
        elif key.words and not _YAML_SWITCHES.intersection(key.words) and not key.kind:
            keys[name] = {"enum": [*key.words, None]}
        else:
            keys[name] = True
    return {"type": ["object", "null"], "additionalProperties": False, "properties": keys}


def main() -> None:
    """Write the file."""
    FILE.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
