"""The whole pipeline without the daemon: what is replayed in, pages and documents out, alike in every run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from pulsed.collector.collector import Pipeline
from pulsed.collector.source_factory import open_sources, target_of
from pulsed.compute.gpu_table import GpuTable
from pulsed.config.configuration import load
from pulsed.errors import SourceEnded
from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.present.api.documents import gpus_document
from pulsed.present.exposition.page import Pages
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.replay import DEFAULT_START

NODE = "here"

_OF_THIS_RUN = re.compile(r"(?:process_|pulsed_build|pulsed_tick_duration_seconds)")
"""Families that tell of the process and the machine."""


class Output(NamedTuple):
    """What pulsed shows after the last tick of a recording."""

    text: str
    openmetrics: str
    gpus: str

    @property
    def document(self) -> Any:
        return json.loads(self.gpus)


async def replayed(path: Path | str, *overrides: str) -> Output:
    """Replay a recording to its end, and look.

    Args:
        path: the recording; it stands in the output, and so should be relative.
        overrides: configuration, as for `--set`.
    """
    config = load(
        None,
        ["source.kind=replay", f"source.replay.path={path}", "source.replay.speed=0", f"node={NODE}", *overrides],
        {},
    )
    (source,) = open_sources(config)
    settings = config.compute_settings()
    store = TargetStore(NODE, [target_of(source, config)])
    (target,) = store.targets
    pipeline = Pipeline(GpuTable(settings), NODE)
    try:
        while True:
            target.accept(pipeline.process(await source.read()), Monotonic(0.0))
    except SourceEnded:
        await source.close()
    pages = Pages(store, Telemetry(store), config.page_settings())
    document = gpus_document(store, Monotonic(0.0), DEFAULT_START + 60, settings.real_utilization.preset)
    return Output(
        text=_lasting(pages.page(Monotonic(0.0), openmetrics=False, gzip=False)),
        openmetrics=_lasting(pages.page(Monotonic(0.0), openmetrics=True, gzip=False)),
        gpus=json.dumps(document, indent=1, ensure_ascii=False) + "\n",
    )


def _lasting(page: bytes) -> str:
    """The page without the families that differ from run to run."""
    lines = page.decode().splitlines(keepends=True)
    return "".join(line for line in lines if not _OF_THIS_RUN.match(re.sub(r"^# (?:HELP|TYPE|UNIT) ", "", line)))
