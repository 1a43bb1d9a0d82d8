"""A `dcgmi dmon` capture made in code: the loads of `tools.bench.pages` in the words of dmon."""

from __future__ import annotations

from tests.support.dmon_writer import ERAS, DmonWriter
from tests.support.dmon_writer import FIELDS as KNOWN_TO_DMON
from tests.support.streams import StreamName
from tools.bench import pages
from tools.bench.ticks import FIELDS, GPUS


def capture(ticks: int, stream: StreamName) -> str:
    """Return a capture of DCGM 4.5 or newer."""
    fields = [field for field in pages.FIELDS if field.number in KNOWN_TO_DMON][:FIELDS]
    writer = DmonWriter(ERAS["C2"], [field.number for field in fields])
    text = [writer.header()]
    for seed in range(ticks):
        loads = [pages.load_of("n0", gpu, seed, stream) for gpu in range(GPUS)]
        text.append(
            writer.tick((f"GPU {gpu}", [field.value(load) for field in fields]) for gpu, load in enumerate(loads))
        )
    return "".join(text)
