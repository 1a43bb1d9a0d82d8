from __future__ import annotations

from pulsed.model.raw_tick import Layout, Series
from pulsed.reader.dcgmi.discovery import Topology, merged_layout


def layout(*names: str) -> Layout:
    rows = [(("entity", "GPU"), ("id", number)) for number in "01"]
    return Layout("dmon", tuple(Series(name, row) for row in rows for name in names))


FAST, SLOW = layout("POWER", "TMPTR"), layout("ESVTL")
KNOWN = Topology({("GPU", "0"): (("uuid", "GPU-0"), ("model", "T4"))})


def test_slow_series_follow_the_fast_ones_with_the_same_labels() -> None:
    made = merged_layout(FAST, SLOW, KNOWN)
    assert made.dialect == "dmon"
    assert [series.name for series in made.series] == ["POWER", "TMPTR", "POWER", "TMPTR", "ESVTL", "ESVTL"]
    gpu0 = (("entity", "GPU"), ("id", "0"), ("uuid", "GPU-0"), ("model", "T4"))
    gpu1 = (("entity", "GPU"), ("id", "1"))
    assert [series.labels for series in made.series] == [gpu0, gpu0, gpu1, gpu1, gpu0, gpu1]
