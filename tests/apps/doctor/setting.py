"""Configurations, reports and exporters for the tests of doctor and preflight."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pulsed.apps.doctor import doctor
from pulsed.config.configuration import Config, load
from pulsed.translate.fields import GROUPS
from tests.support.daemon import free_port
from tests.support.exporters import Exporter, exporting
from tools.bench.pages import exporter_page

NO_USERS = f"http://127.0.0.1:{free_port()}/metrics"

NOT_BY_DEFAULT = ("PROF_SM_ACTIVE", "PROF_SM_OCCUPANCY", "PROF_PIPE_FP64", "PROF_PIPE_FP32", "PROF_PIPE_FP16")
"""What dcgm-exporter's default counters file leaves out."""


def configured(
    dcgmi: Path | str = "/nowhere/dcgmi",
    exporter: object = NO_USERS,
    kind: str = "auto",
    groups: Sequence[str] = tuple(GROUPS),
    more: Mapping[str, object] | None = None,
) -> Config:
    """A configuration; `more` by key."""
    given = {
        "source.kind": kind,
        "source.dcgmi.path": str(dcgmi),
        "source.dcgmi.groups": list(groups),
        "source.exporter.targets": exporter,
        **(more or {}),
    }
    return load(None, [f"{key}={json.dumps(value)}" for key, value in given.items()], {})


def report(config: Config) -> tuple[int, dict[str, Any]]:
    out = io.StringIO()
    code = doctor(config, "json", out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return code, found


def told(config: Config) -> str:
    out = io.StringIO()
    doctor(config, "table", out)
    return out.getvalue()


def page(gpus: int = 2, without: tuple[str, ...] = NOT_BY_DEFAULT) -> str:
    """A page of dcgm-exporter 4.x, by default with the counters of its default file."""
    lines = exporter_page(gpus).decode().splitlines(keepends=True)
    return "".join(line for line in lines if not any(name in line for name in without))


@contextlib.contextmanager
def serving(*bodies: str) -> Iterator[list[str]]:
    """Serve each page at a URL of its own."""
    exporters = {f"{number}/metrics": Exporter(body) for number, body in enumerate(bodies)}
    with exporting(exporters) as begin:
        yield [begin + name for name in exporters]
