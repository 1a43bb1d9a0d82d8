from __future__ import annotations

from pulsed.model.raw_tick import Layout, Series
from pulsed.reader.dcgmi.discovery import NOTHING_KNOWN, Assembly, Topology, entities, values


def layout(*names: str, entity: str = "GPU") -> Layout:
    rows = [(("entity", entity), ("id", number)) for number in "01"]
    return Layout("dmon", tuple(Series(name, row) for row in rows for name in names))


FAST, SLOW = layout("POWER", "TMPTR"), layout("ESVTL")
KNOWN = Topology({("GPU", "0"): (("uuid", "GPU-0"), ("model", "T4"))})


def test_the_same_parts_give_the_same_layout() -> None:
    assembly = Assembly()
    first = assembly.layout(FAST, SLOW, KNOWN)
    assert assembly.layout(FAST, SLOW, KNOWN) is first
    for parts in ((FAST, None, KNOWN), (layout("POWER"), None, KNOWN), (FAST, SLOW, NOTHING_KNOWN)):
        other = assembly.layout(*parts)
        assert other is not first
        assert assembly.layout(*parts) is other


def test_slow_series_follow_the_fast_ones_with_the_same_labels() -> None:
    made = Assembly().layout(FAST, SLOW, KNOWN)
    assert made.dialect == "dmon"
    assert [series.name for series in made.series] == ["POWER", "TMPTR", "POWER", "TMPTR", "ESVTL", "ESVTL"]
    gpu0 = (("entity", "GPU"), ("id", "0"), ("uuid", "GPU-0"), ("model", "T4"))
    gpu1 = (("entity", "GPU"), ("id", "1"))
    assert [series.labels for series in made.series] == [gpu0, gpu0, gpu1, gpu1, gpu0, gpu1]


def test_slow_values_that_are_not_fresh_are_missing() -> None:
    assert values([1.0, 2.0], None, None) == [1.0, 2.0]
    assert values([1.0, 2.0], [3.0, None], SLOW) == [1.0, 2.0, 3.0, None]
    assert values([1.0, 2.0], None, SLOW) == [1.0, 2.0, None, None]


def test_entities_are_told_by_their_labels() -> None:
    assert entities(FAST) == entities(SLOW) == {(("entity", "GPU"), ("id", "0")), (("entity", "GPU"), ("id", "1"))}
    assert entities(FAST) != entities(layout("POWER", entity="GPU-I"))
