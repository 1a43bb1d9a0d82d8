"""`pulsed.reader.dmon`: every layout of `dcgmi dmon`, and what people make of its output."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from pulsed.model.raw_tick import RawValue
from pulsed.reader.dmon.parser import DmonMessage, DmonParser, DmonTick, message_of
from pulsed.reader.dmon.rows import STRING_COLUMNS
from tests.support.dmon_writer import (
    ABSENT,
    ERAS,
    FAILURES,
    FIELDS,
    DmonWriter,
    Era,
    Failure,
    Field,
    Value,
    is_visible,
    row_text,
    value_text,
)
from tests.support.examples import examples
from tests.support.samples import SAMPLES, needs_samples

Rows = list[tuple[str, Sequence[Value]]]
Table = dict[str, list[RawValue]]

eras = pytest.mark.parametrize("era", ERAS.values(), ids=ERAS.keys())


def read(text: str, columns: Sequence[str] = ()) -> tuple[list[DmonTick], DmonParser]:
    """All ticks of a whole capture, as replay and the daemon read it."""
    parser = DmonParser(columns)
    *lines, rest = text.split("\n")
    ticks = [parser.feed(line) for line in lines]
    ticks += [parser.feed_rest(rest), parser.finish()]
    return [tick for tick in ticks if tick is not None], parser


def table(tick: DmonTick) -> Table:
    """The values of a tick by entity, in the order of the columns."""
    rows: Table = {}
    assert len(tick.values) == len(tick.layout.series)
    for series, value in zip(tick.layout.series, tick.values, strict=True):
        (entity, label), (key, number) = series.labels
        assert (entity, key) == ("entity", "id")
        rows.setdefault(f"{label} {number}", []).append(value)
    return rows


def names(tick: DmonTick) -> list[str]:
    return list(dict.fromkeys(series.name for series in tick.layout.series))


def column(ticks: Iterable[DmonTick], name: str, entity: str = "GPU 0") -> list[RawValue]:
    return [table(tick)[entity][names(tick).index(name)] for tick in ticks]


# What the writer prints


@needs_samples
@pytest.mark.parametrize(
    ("sample", "era", "field_ids"),
    [
        ("dmon-2x-a100-gract-tenso-drama", "A", [1001, 1004, 1005]),
        ("dmon-2x-a100-mig-group8", "A", [1001, 1004]),
        ("dmon-3x-t4-gract-tenso-drama", "B", [1001, 1004, 1005]),
        ("dmon-335-rtx2080ti-dev", "B", [203, 204, 155, 150, 310, 311, 252]),
        ("dmon-318-h800x8-nvlink", "B", [1011, 1012]),
        ("dmon-423-x8-smact-all-na", "C1", [1002]),
    ],
)
def test_the_writer_prints_what_dcgmi_printed(sample: str, era: str, field_ids: list[int]) -> None:
    """Line by line, but for the blanks at line ends, which most captures lost."""
    captured = (SAMPLES / "dmon" / f"{sample}.txt").read_text().removesuffix("...\n").splitlines()
    writer = DmonWriter(ERAS[era], field_ids)
    lines = writer.header().splitlines()
    for line in captured[2:]:
        label, number, *cells = line.split()
        values = [None if cell == "N/A" else float(cell) if "." in cell else int(cell) for cell in cells]
        lines.append(row_text(ERAS[era], writer.fields, f"{label} {number}", values).rstrip("\n"))
    assert [line.rstrip() for line in lines] == [line.rstrip() for line in captured]
    if "t4" in sample:  # this one is byte-exact
        assert lines == captured


FIELD_TABLE = SAMPLES.parent / "dcgm" / "fields.tsv"
needs_field_table = pytest.mark.skipif(not FIELD_TABLE.is_file(), reason=f"no field table at {FIELD_TABLE}")


def field_table() -> list[dict[str, str]]:
    with FIELD_TABLE.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@needs_field_table
def test_the_writer_knows_the_fields_as_dcgm_does() -> None:
    known = {int(row["id"]): row for row in field_table()}
    for field in FIELDS.values():
        row = known[field.id]
        assert field.short in (row["short"], row["short_old"])
        assert (field.width, field.kind) == (int(row["width"]), row["type"].removesuffix("64"))


@needs_field_table
def test_the_string_columns_are_those_that_dcgm_declares() -> None:
    declared = {name for row in field_table() if row["type"] == "string" for name in (row["short"], row["short_old"])}
    assert declared - {""} == STRING_COLUMNS


@eras
def test_the_header_comes_again_after_15_ticks_and_then_every_14(era: Era) -> None:
    writer = DmonWriter(era, [1001])
    assert [i for i in range(50) if "Entity" in writer.tick([("GPU 0", [0.5])])] == [15, 29, 43]


# Tables in every layout

FITTING = [field for field in FIELDS.values() if len(field.short) < field.width + 2]


RATIOS = st.integers(0, 1000).map(lambda n: n / 1000)
WORDS = st.text("ABCxyz019:.()-", min_size=1, max_size=9)
ANY_LENGTH: dict[str, st.SearchStrategy[Value]] = {
    "string": st.none() | st.lists(WORDS, min_size=1, max_size=4).map(" ".join),
    "double": st.none() | RATIOS | st.floats(-1e12, 1e15) | st.sampled_from([float("nan"), float("-inf")]),
    "int": st.none() | st.integers(0, 10**6) | st.integers(-(2**63), 2**63 - 1),
    "binary": st.none(),
}


@st.composite
def streams(draw: st.DrawFn, era: Era, max_ticks: int = 3) -> tuple[list[Field], list[Rows]]:
    """A list of fields and ticks of rows, the same entities in each, as `era` can have them."""
    fields = draw(st.lists(st.sampled_from(FITTING), min_size=1, max_size=6, unique_by=lambda field: field.id))
    labels = ["GPU", "GPU-I", "GPU-CI", "vGPU"] + ([] if era.right else ["Switch", "CPU", "CPU Core", "CX"])
    entity = st.builds("{} {}".format, st.sampled_from(labels), st.integers(0, 12))
    pool = entity | st.just("GPU 0 LINK 5") if era.name == "C2" else entity
    entities = draw(st.lists(pool, min_size=1, max_size=3, unique=True))
    ticks: list[Rows] = []
    for _ in range(draw(st.integers(1, max_ticks))):
        rows: Rows = []
        for name in draw(st.permutations(entities)):
            row: list[Value] = [draw(ANY_LENGTH[field.kind]) for field in fields]
            if not name.startswith("GPU "):
                row = [ABSENT if draw(st.booleans()) else value for value in row]
            rows.append((name, row))
        ticks.append(rows)
    return fields, ticks


def seen(era: Era, field: Field, value: Value) -> RawValue:
    """What of a value can be read from the page of an era."""
    if value is ABSENT or value is None or field.kind == "binary":
        return None
    if field.kind == "string":
        text = str(value)
        most = field.width + 6
        return text if era.right or len(text) <= most else (text[: most - 3] + "...").strip()
    assert isinstance(value, (int, float))
    return float(value_text(era, field, value)) if is_visible(era, field, value) else None


@eras
@examples(80, [HealthCheck.too_slow])
@given(data=st.data())
def test_a_random_table_is_read_as_it_was_written(era: Era, data: st.DataObject) -> None:
    fields, written = data.draw(streams(era))
    writer = DmonWriter(era, [field.id for field in fields])
    ticks, parser = read(writer.header() + "".join(writer.tick(rows) for rows in written))
    whole = not parser.rejected
    # Refused are only rows that lost a cell before 4.0, and in era A texts that overflow so that it is open
    # where they end.
    texts = any(field.kind == "string" for field in fields)
    lost = not era.blank_cells and any(ABSENT in row for rows in written for _, row in rows)
    assert whole or lost or (era.right and texts)
    assert not (lost and whole)
    if whole:
        assert len(ticks) == len(written)
        assert all(tick.layout is ticks[0].layout for tick in ticks)
    for tick in ticks:
        assert [series.name for series in tick.layout.series[: len(fields)]] == [field.short for field in fields]
    for tick, rows in zip(ticks, written, strict=False) if whole else ():
        expected = {name: [seen(era, f, v) for f, v in zip(fields, row, strict=True)] for name, row in rows}
        assert table(tick) == expected
    if not whole:
        possible = {
            (name, tuple(seen(era, f, v) for f, v in zip(fields, row, strict=True)))
            for rows in written
            for name, row in rows
            if era.blank_cells or ABSENT not in row
        }
        for tick in ticks:
            for name, values in table(tick).items():
                assert (name, tuple(values)) in possible or set(values) == {None}


def everywhere(field: Field) -> st.SearchStrategy[Value]:
    """Values that every era prints whole."""
    if field.kind == "string":
        return st.none() | st.text("ABCxyz0123456789-:.", min_size=1, max_size=field.width)
    if field.kind == "double":
        return st.none() | st.integers(-999, 99_999).map(lambda n: n / 1000)
    return st.none() | st.integers(-9_999, 10 ** min(field.width + 1, 18) - 1)


@examples(60)
@given(data=st.data())
def test_two_captures_of_the_same_numbers_in_different_layouts_give_identical_results(data: st.DataObject) -> None:
    fields = data.draw(st.lists(st.sampled_from(FITTING), min_size=1, max_size=8, unique_by=lambda field: field.id))
    entities = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=4, unique=True))
    written: list[Rows] = [
        [(f"GPU {number}", [data.draw(everywhere(field)) for field in fields]) for number in entities]
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    results = []
    for era in ERAS.values():
        writer = DmonWriter(era, [field.id for field in fields])
        text = writer.header() + "".join(writer.tick(rows) for rows in written) + writer.stopped()
        stripped = "\n".join(line.rstrip() for line in text.split("\n"))
        for capture in (text, stripped, "    " + text.replace("\n", "\n    "), text.replace("\n", "\r\n")):
            ticks, parser = read(capture)
            assert parser.rejected == {}
            assert [message.kind for message in parser.drain_messages()] == ["stopped"]
            results.append(([tick.layout.series for tick in ticks], [tick.values for tick in ticks]))
    assert all(result == results[0] for result in results)
    assert len(results[0][1]) == len(written)


def test_overflowing_blank_strings_beside_each_other_are_separate_cells() -> None:
    writer = DmonWriter(ERAS["A"], [50, 1, 68])  # DVNAM, DRVER, CUVID: all of them strings
    row: list[Value] = [None, None, None]
    ticks, parser = read(writer.header() + writer.tick([("GPU 0", row)]) + writer.stopped())
    assert parser.rejected == {}
    assert [tick.values for tick in ticks] == [row]


@eras
@examples(40)
@given(data=st.data())
def test_a_row_cut_anywhere_gives_no_value_that_was_not_in_it(era: Era, data: st.DataObject) -> None:
    fields, written = data.draw(streams(era, max_ticks=1))
    writer = DmonWriter(era, [field.id for field in fields])
    line = writer.tick(written[0][:1]).removesuffix("\n")
    name, row = written[0][0]
    truth = [seen(era, field, value) for field, value in zip(fields, row, strict=True)]
    for header in (writer.header(), "\n".join(part.rstrip() for part in writer.header().split("\n"))):
        for end in range(len(line) + 1):
            ticks, _ = read(header + line[:end])
            for tick in ticks:
                assert table(tick) == {name: truth}
                # An entity cut short would be another entity.
                assert line[:end].lstrip().startswith(name)


@eras
def test_a_last_row_without_newline_counts_only_when_it_is_surely_whole(era: Era) -> None:
    writer = DmonWriter(era, [1001, 252])
    text = writer.header() + writer.tick([("GPU 0", [0.984, 4567])]).rstrip("\n")
    assert table(read(text)[0][0]) == {"GPU 0": [0.984, 4567]}
    ticks, parser = read(text.rstrip()[:-1])
    assert ticks == []
    assert parser.rejected == {"half_row": 1}


@eras
def test_the_half_row_of_a_dying_dcgmi_does_not_cost_the_rows_before_it(era: Era) -> None:
    writer = DmonWriter(era, [1001])
    text = writer.header() + writer.tick([("GPU 0", [0.25]), ("GPU 1", [0.5])])
    half = row_text(era, writer.fields, "GPU 0", [0.984]).rstrip()[:-2]
    ticks, parser = read(text + half)
    assert [table(tick) for tick in ticks] == [{"GPU 0": [0.25], "GPU 1": [0.5]}]
    assert parser.rejected == {"half_row": 1}


# Ticks


@eras
def test_ticks_are_cut_where_an_entity_repeats_and_at_headers(era: Era) -> None:
    writer = DmonWriter(era, [1001, 155])
    text = writer.header()
    for i in range(40):
        text += writer.tick([(f"GPU {gpu}", [i / 100, 100.0 + gpu]) for gpu in (2, 0, 1)])
    ticks, parser = read(text)
    assert column(ticks, "GRACT", "GPU 1") == [i / 100 for i in range(40)]
    assert column(ticks, "POWER", "GPU 2") == [102.0] * 40
    assert len({id(tick.layout) for tick in ticks}) == 1
    assert text.count("Entity") == 3
    assert parser.rejected == {}


@eras
def test_a_layout_holds_just_the_entities_that_have_a_row(era: Era) -> None:
    writer = DmonWriter(era, [1001])
    both: Rows = [("GPU 0", [0.1]), ("GPU 1", [0.2])]
    text = writer.header() + writer.tick(both) + writer.tick(both[:1]) + writer.tick(both)
    text += writer.tick([*both, ("GPU 2", [0.3])]) + writer.tick(both)
    ticks, _ = read(text)
    assert [table(tick) for tick in ticks] == [
        {"GPU 0": [0.1], "GPU 1": [0.2]},
        {"GPU 0": [0.1]},
        {"GPU 0": [0.1], "GPU 1": [0.2]},
        {"GPU 0": [0.1], "GPU 1": [0.2], "GPU 2": [0.3]},
        {"GPU 0": [0.1], "GPU 1": [0.2]},
    ]
    assert ticks[0].layout == ticks[2].layout == ticks[4].layout


@eras
def test_a_changed_header_is_a_new_layout(era: Era) -> None:
    first, second = DmonWriter(era, [1001]), DmonWriter(era, [155, 252])
    text = first.header() + first.tick([("GPU 0", [0.5])]) + second.header() + second.tick([("GPU 0", [70.5, 1024])])
    ticks, _ = read(text)
    assert [(names(tick), tick.values) for tick in ticks] == [(["GRACT"], [0.5]), (["POWER", "FBUSD"], [70.5, 1024.0])]


def test_captures_of_two_versions_in_one_file_share_a_layout() -> None:
    text = ""
    for era in ERAS.values():
        writer = DmonWriter(era, [1001, 54])
        text += writer.header() + writer.tick([("GPU 0", [0.5, "GPU-1b2c"])])
    ticks, parser = read(text)
    assert [tick.values for tick in ticks] == [[0.5, "GPU-1b2c"]] * 4
    assert len({id(tick.layout) for tick in ticks}) == 1
    assert parser.rejected == {}


@eras
def test_complete_tells_a_live_reader_that_nothing_is_awaited(era: Era) -> None:
    writer = DmonWriter(era, [1001])
    parser = DmonParser()
    rows: Rows = [("GPU 0", [0.1]), ("GPU 1", [0.2])]
    states = []
    for line in (writer.header() + writer.tick(rows) + writer.tick(rows)).splitlines():
        parser.feed(line)
        states.append(parser.complete)
    assert states == [False, False, False, False, False, True]
    first = parser.finish()
    assert first is not None
    states = [parser.complete]
    for line in writer.tick(rows[::-1]).splitlines():
        assert parser.feed(line) is None
        states.append(parser.complete)
    assert states == [False, False, True]
    second = parser.finish()
    assert second is not None
    assert second.layout is first.layout
    assert second.values == first.values
    assert parser.finish() is None


# Cells


@eras
def test_the_unit_line_is_never_data(era: Era) -> None:
    writer = DmonWriter(era, [150, 155, 156, 200, 202])
    assert "KB/s" in writer.header()
    ticks, parser = read(writer.header() * 2 + writer.tick([("GPU 0", [31, 70.5, 123456789, 10, 0])]))
    assert [tick.values for tick in ticks] == [[31, 70.5, 123456789, 10, 0]]
    assert parser.rejected == {}


@eras
def test_texts_keep_their_blanks_and_dcgm_s_markers_are_missing(era: Era) -> None:
    uuid = "GPU-12345678-1234-1234-1234-123456789abc"
    writer = DmonWriter(era, [50, 1001, 54, 57, 504])
    a100: Rows = [("GPU 0", ["NVIDIA A100-SXM4-40GB", 0.5, uuid, "00000000:1B:00.0", None])]
    none: Rows = [("GPU 0", [None, None, "<<<NOT_SUPPORTED>>>", "<<<NOT_PERM>>>", None])]
    ticks, _ = read(writer.header() + writer.tick(a100) + writer.tick(none))
    assert [tick.values for tick in ticks] == [
        ["NVIDIA A100-SXM4-40GB", 0.5, uuid, "00000000:1B:00.0", None],
        [None] * 5,
    ]


def test_an_overflowing_text_moves_the_line_in_era_a_and_is_cut_after() -> None:
    long = "NVIDIA RTX 6000 Ada Generation with words"
    rows: Rows = [("GPU 0", [0.25, long, 0.5, 1234567])]
    texts = {}
    for era in ERAS.values():
        writer = DmonWriter(era, [1001, 50, 1004, 252])
        (tick,), parser = read(writer.header() + writer.tick(rows))
        assert parser.rejected == {}
        texts[era.name] = tick.values
    assert texts["A"] == [0.25, long, 0.5, 1234567]
    assert texts["B"] == texts["C1"] == texts["C2"] == [0.25, long[:23] + "...", 0.5, 1234567]


def test_era_a_overflow_and_the_touching_cells_of_dcgm_1() -> None:
    writer = DmonWriter(ERAS["A"], [1001, 310, 1004])
    ticks, parser = read(writer.header() + writer.tick([("GPU 0", [0.5, 161262123456, 0.25])]))
    assert ticks[0].values == [0.5, 161262123456, 0.25]
    # 1.x printed no blank before a value that is too wide.
    ticks, parser = read(writer.header() + "    GPU 0    N/A161262123456  0.250\n")
    assert ticks[0].values == [None, 161262123456, 0.25]
    # What looks the same is in 2.x a single value of a row that lost a cell.
    ticks, parser = read(DmonWriter(ERAS["A"], [310, 311, 230]).header() + "  GPU-I 0 12345678901234      5\n")
    assert ticks == []
    assert parser.rejected == {"short_row": 1}
    # Two such in a row leave open where one ends.
    ticks, parser = read(writer.header() + "    GPU 0    N/A1612621234561234567\n")
    assert ticks == []
    assert parser.rejected == {"short_row": 1}


def test_a_number_cut_to_its_column_is_missing_and_no_fault() -> None:
    writer = DmonWriter(ERAS["C2"], [230, 1001])
    ticks, parser = read(writer.header() + writer.tick([("GPU 0", [123456789012345, 0.5])]))
    assert ticks[0].values == [None, 0.5]
    assert parser.rejected == {}


@pytest.mark.parametrize("era", [ERAS["C1"], ERAS["C2"]], ids=["C1", "C2"])
@pytest.mark.parametrize("strip", [False, True], ids=["padded", "stripped"])
def test_blank_cells_of_mig_rows_move_nothing(era: Era, strip: bool) -> None:
    writer = DmonWriter(era, [1001, 1005, 155, 1004])
    rows: Rows = [
        ("GPU 0", [0.9, 0.8, 300.0, 0.7]),
        ("GPU-I 0", [0.6, 0.5, ABSENT, 0.4]),
        ("GPU-CI 0", [0.3, ABSENT, ABSENT, ABSENT]),
    ]
    text = writer.header() + writer.tick(rows) * 2
    if strip:
        text = "\n".join(line.rstrip() for line in text.split("\n"))
    ticks, parser = read(text)
    assert parser.rejected == {}
    assert [table(tick) for tick in ticks] == [
        {"GPU 0": [0.9, 0.8, 300, 0.7], "GPU-I 0": [0.6, 0.5, None, 0.4], "GPU-CI 0": [0.3, None, None, None]}
    ] * 2


@pytest.mark.parametrize("era", [ERAS["A"], ERAS["B"]], ids=["A", "B"])
def test_rows_that_lost_a_cell_before_4_0_are_refused(era: Era) -> None:
    """Which cell is missing is not to be seen: the values after it have moved left."""
    writer = DmonWriter(era, [1005, 1001, 68])
    rows: Rows = [("GPU 0", [0.8, 0.9, "0"]), ("GPU-CI 0", [ABSENT, 0.3, "3"]), ("GPU-CI 1", [0.8, 0.9, "4"])]
    ticks, parser = read(writer.header() + writer.tick(rows))
    assert [table(tick) for tick in ticks] == [{"GPU 0": [0.8, 0.9, "0"], "GPU-CI 1": [0.8, 0.9, "4"]}]
    assert ticks[0].rejected == parser.rejected == {"short_row": 1}


def test_an_entity_may_fill_its_cell_and_touch_the_value() -> None:
    for era, entity, values in [
        ("C1", "CPU Core 10", [0.1, 5.0]),
        ("C1", "CPU Core 100", [0.1, 5.0]),
        ("B", "CPU Core 7", [0.1, 5.0]),
        ("B", "CPU Core 12", [7.1, 5.0]),
        ("B", "LINK 4294967301", [0.123, 5.0]),
        ("C2", "CPU Core 12", [7.1, 5.0]),
        ("C2", "GPU 0 LINK 5", [7.1, 5.0]),
        ("C2", "SW 1 LINK 17", [7.1, 5.0]),
    ]:
        writer = DmonWriter(ERAS[era], [1001, 155])
        ticks, parser = read(writer.header() + writer.tick([(entity, values)]))
        assert parser.rejected == {}
        assert table(ticks[0]) == {entity: values}
    assert ticks[0].layout.series[0].labels == (("entity", "SW 1 LINK"), ("id", "17"))


def test_where_the_entity_ends_is_not_guessed() -> None:
    ticks, parser = read("#Entity    GRACT\nID\nCPU Core 1027.100\n")
    assert ticks == []
    assert sum(parser.rejected.values()) == 1


def test_duplicate_short_names_stay_two_columns() -> None:
    writer = DmonWriter(ERAS["C1"], [350, 350])
    ticks, _ = read(writer.header() + writer.tick([("GPU 0", [1, 2])]))
    assert [series.name for series in ticks[0].layout.series] == ["MEMRES", "MEMRES.2"]
    assert ticks[0].values == [1, 2]


def test_a_note_beside_a_number_costs_the_cell() -> None:
    writer = DmonWriter(ERAS["B"], [1011, 1012])
    row = "GPU 0     38...(36.07GB/s)            19687914629\n"
    ticks, _ = read(writer.header() + row)
    assert ticks[0].values == [None, 19687914629]
    assert ticks[0].rejected == {"bad_cell": 1}


def test_numbers_that_python_would_read_and_dcgm_does_not_print_are_no_numbers() -> None:
    for cell in ("1_0", "1e5", "+1", "٣", "0x1", "infinity", "1-2", "--", "."):
        ticks, parser = read(f"#Entity   GRACT\nID\nGPU 0     {cell}\n")
        assert [tick.values for tick in ticks] == [[None]]
        assert parser.rejected == {"bad_cell": 1}
    ticks, _ = read("#Entity   GRACT\nID\nGPU 0     1\nGPU 0     " + "9" * 400 + "\n")
    assert [tick.values for tick in ticks] == [[1], [None]]


# What other hands did to captures


def test_a_capture_that_lost_its_blanks_is_split_when_every_column_is_there() -> None:
    for header in (
        "#Entity GRACT POWER",
        "#Entity\tGRACT\tPOWER",
        "# Entity GRACT POWER",
        "#Entity   GRACT        POWER",
    ):
        ticks, parser = read(f"{header}\nID\nGPU 0 0.5 70.5\nGPU\t1\t0.6\t71.5\nGPU 1 0.6 71.5\nGPU 2 0.7\n")
        assert [table(tick) for tick in ticks] == [{"GPU 0": [0.5, 70.5], "GPU 1": [0.6, 71.5]}], header
        assert parser.rejected == {"not_a_row": 1, "short_row": 1} or "   " in header


def test_a_mangled_capture_with_texts_is_refused() -> None:
    ticks, parser = read("#Entity DVNAM GRACT\nID\nGPU 0 Tesla 0.5\n")
    assert ticks == []
    assert parser.rejected == {"misaligned": 1}


def test_a_capture_without_header_needs_columns() -> None:
    text = "GPU 0     0.5          70.5\nGPU 0     0.6          N/A\n"
    ticks, parser = read(text, ["GRACT", "POWER"])
    assert [(names(tick), tick.values) for tick in ticks] == [
        (["GRACT", "POWER"], [0.5, 70.5]),
        (["GRACT", "POWER"], [0.6, None]),
    ]
    ticks, parser = read(text)
    assert ticks == []
    assert parser.rejected == {"no_header": 2}


@eras
def test_prose_prompts_and_signs_between_rows_do_no_harm(era: Era) -> None:
    writer = DmonWriter(era, [1001])
    tick = writer.tick([("GPU 0", [0.5]), ("GPU 1", [0.25])])
    noise = "root@node:~# dcgmi dmon -e 1001\n^C\n...\n* starts here *\n\nGPU 7 is the one to watch\n"
    ticks, parser = read(noise + writer.header() + tick + noise + tick + noise)
    assert [table(tick) for tick in ticks] == [{"GPU 0": [0.5], "GPU 1": [0.25]}] * 2
    assert parser.rejected["not_a_row"] == 6
    assert sum(parser.rejected.values()) == 9
    assert not parser.drain_messages()


@eras
def test_a_row_that_cannot_be_read_is_missing_in_its_own_tick(era: Era) -> None:
    writer = DmonWriter(era, [1001, 155])
    good = writer.tick([("GPU 0", [0.5, 70.0]), ("GPU 1", [0.6, 71.0])])
    bad = good.replace("0.500", "0.5 0")
    ticks, _ = read(writer.header() + good + bad + good)
    assert [table(tick) for tick in ticks] == [
        {"GPU 0": [0.5, 70.0], "GPU 1": [0.6, 71.0]},
        {"GPU 0": [None, None], "GPU 1": [0.6, 71.0]},
        {"GPU 0": [0.5, 70.0], "GPU 1": [0.6, 71.0]},
    ]
    assert [dict(tick.rejected) for tick in ticks] == [{}, {"misaligned": 1}, {}]


ALPHABET = "GPU0123456789.-/NA# \tEntityID^C|*…eE_+\x00\x1cé٣"


@examples(300)
@given(
    lines=st.lists(
        st.text(max_size=40)
        | st.text(ALPHABET, max_size=60)
        | st.builds("#Entity   {}".format, st.text(ALPHABET + "DVNAM", max_size=40))
        | st.builds("# Entity  {}".format, st.text(ALPHABET + "UUID#", max_size=40))
        | st.builds("GPU 0     {}".format, st.text(ALPHABET, max_size=60))
        | st.sampled_from(["    GPU 1  0.5   a b  c", "#Entity   GRACT        DVNAM", "# Entity  DVNAM  UUID#  GRACT"]),
        max_size=30,
    )
)
def test_no_text_makes_it_raise(lines: list[str]) -> None:
    ticks, _ = read("\n".join(lines))
    for tick in ticks:
        assert len(tick.values) == len(tick.layout.series)
        for value in tick.values:
            assert not isinstance(value, float) or abs(value) < float("inf")


def test_a_long_line_of_texts_takes_no_time_to_refuse() -> None:
    """Many text columns in era A could be read in more ways than there is time for."""
    writer = DmonWriter(ERAS["A"], [50, 53, 54, 57, 85, 50, 53, 54, 57, 85])
    rng = random.Random(1)
    line = "    GPU 0 " + " ".join("x" * rng.randint(1, 9) for _ in range(400))
    ticks, parser = read(writer.header() + line + "\n")
    assert ticks == []
    assert parser.rejected == {"misaligned": 1}


# Messages


@eras
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
def test_every_failure_of_dcgmi_is_told_with_its_code(era: Era, failure: Failure) -> None:
    writer = DmonWriter(era, [1001])
    text = ""
    if failure.moment in ("watch", "running"):
        text += writer.header()
    if failure.moment == "running":
        text += writer.tick([("GPU 0", [0.5])])
    ticks, parser = read(text + failure.text_in(era))
    messages = parser.drain_messages()
    assert len(ticks) == (failure.moment == "running")
    assert len(messages) >= 1
    assert all(message.kind == "error" for message in messages)
    if str(failure.result) in failure.text_in(era):
        assert [message.code for message in messages] == [failure.result]
    else:
        assert {message.code for message in messages} == {None}
    assert parser.drain_messages() == []


@eras
def test_the_notice_of_a_stopped_dmon(era: Era) -> None:
    writer = DmonWriter(era, [1001])
    ticks, parser = read(writer.header() + writer.tick([("GPU 0", [0.5])]) + "^C" + writer.stopped())
    assert [tick.values for tick in ticks] == [[0.5]]
    assert [message.kind for message in parser.drain_messages()] == ["stopped"]
    assert parser.rejected == {}


def test_messages_do_not_pile_up() -> None:
    parser = DmonParser()
    for i in range(1000):
        parser.feed(f"Error {i}")
    assert [message.text for message in parser.drain_messages()] == [f"Error {i}" for i in range(936, 1000)]


def test_a_line_of_stderr_can_be_asked_alone() -> None:
    line = "Error setting watches. Result: -37: The third-party Profiling module returned an unrecoverable error"
    assert message_of(line + "\n") == DmonMessage("error", line, -37)
    assert message_of("GPU 0     0.5") is None


# Captures of others


def sample(name: str) -> tuple[list[DmonTick], DmonParser]:
    return read((Path(SAMPLES) / "dmon" / f"{name}.txt").read_text())


@needs_samples
class TestSamples:
    @pytest.mark.parametrize(
        ("name", "ticks", "entities", "columns"),
        [
            ("dmon-1x-entityid-pcie", 3, 1, "GPUTL MCUTL DRAMA SMACT SMOCC TENSO PCITX PCIRX"),
            ("dmon-2x-a100-gract-tenso-drama", 15, 1, "GRACT TENSO DRAMA"),
            ("dmon-2x-a100-mig-group8", 10, 3, "GRACT TENSO"),
            ("dmon-31-h800-two-na-ticks", 5, 1, "NVLTX NVLRX PCITX PCIRX"),
            ("dmon-318-h800x4-nvlink", 6, 4, "NVLTX NVLRX"),
            ("dmon-318-h800x8-nvlink", 2, 8, "NVLTX NVLRX"),
            ("dmon-33-mig-gpui-group35", 1, 7, "GRACT SMACT SMOCC TENSO"),
            ("dmon-335-rtx2080ti-dev", 5, 1, "GPUTL MCUTL POWER TMPTR ESVTL EDVTL FBUSD"),
            ("dmon-3x-rtx6000ada-descending", 1, 3, "GRACT SMACT TENSO DRAMA"),
            ("dmon-3x-t4-gract-tenso-drama", 15, 1, "GRACT TENSO DRAMA"),
            ("dmon-423-x8-smact-all-na", 3, 8, "SMACT"),
            (
                "dmon-441-dev-zero-and-na",
                3,
                1,
                "XIDER GNVERR VIUTL VMUSG CLKPCNS CLKBSTNS CLKSWTHNS CLKHWTHNS CLKEPBSNS",
            ),
            (
                "dmon-441-gb200-all-na",
                1,
                3,
                "ESVTL NLXMITP NLXMITB NLRCVP NLRCVB NLMALP NLBUFO NLRCVE NLRCVRE NLRCVGE NLLLIE NLXMITD NLLRS",
            ),
            ("dmon-453-header-16", 1, 1, "XIDER GNVERR VIUTL VMUSG CLKPCNS CLKBSTNS CLKSWTHNS CLKHWTHNS CLKEPBSNS"),
        ],
    )
    def test_ticks_entities_and_columns(self, name: str, ticks: int, entities: int, columns: str) -> None:
        found, parser = sample(name)
        assert len(found) == ticks
        assert {len(table(tick)) for tick in found} == {entities}
        assert {tuple(names(tick)) for tick in found} == {tuple(columns.split())}
        assert len({id(tick.layout) for tick in found}) == 1
        assert parser.rejected == {}

    def test_the_hand_edited_header(self) -> None:
        ticks, _ = sample("dmon-1x-entityid-pcie")
        assert ticks[0].layout.series[0].labels == (("entity", "GPU"), ("id", "2"))
        assert [tick.values for tick in ticks] == [
            [79, 43, 0.382, 0.652, 0.206, 0.267, 273834455, 2258816847],
            [92, 50, 0.333, 0.553, 0.175, 0.227, 241553009, 1988613613],
            [93, 51, 0.335, 0.562, 0.178, 0.231, 238690016, 1964181534],
        ]

    def test_numbers(self) -> None:
        ticks, _ = sample("dmon-2x-a100-gract-tenso-drama")
        assert column(ticks, "TENSO")[3:6] == [0.527, 0.928, 0.931]
        ticks, _ = sample("dmon-2x-a100-mig-group8")
        assert table(ticks[2]) == {"GPU 0": [0.457, 0.442], "GPU-I 0": [0.534, 0.516], "GPU-I 1": [0.533, 0.515]}
        ticks, _ = sample("dmon-318-h800x4-nvlink")
        assert list(table(ticks[0])) == ["GPU 3", "GPU 2", "GPU 1", "GPU 0"]
        assert column(ticks, "NVLRX", "GPU 1")[3:5] == [50051, 0]
        ticks, _ = sample("dmon-335-rtx2080ti-dev")
        assert ticks[3].values == [0, 0, 20.986, 22, 0, 0, 0]
        ticks, _ = sample("dmon-33-mig-gpui-group35")
        assert table(ticks[0])["GPU-I 28"] == [0.993, 0.987, 0.123, 0.940]
        ticks, _ = sample("dmon-3x-t4-gract-tenso-drama")
        assert column(ticks, "DRAMA")[-3:] == [0.295, 0.252, 0]

    def test_missing_is_missing_and_zero_is_zero(self) -> None:
        ticks, _ = sample("dmon-31-h800-two-na-ticks")
        assert column(ticks, "PCITX") == [None, None, 498948, 449138, 548740]
        assert column(ticks, "NVLTX") == [None, None, 0, 0, 0]
        ticks, _ = sample("dmon-441-dev-zero-and-na")
        assert ticks[0].values == [0, 0, None, 0, 0, 0, 0, 0, 0]
        for name in ("dmon-423-x8-smact-all-na", "dmon-441-gb200-all-na", "dmon-453-header-16"):
            assert {value for tick in sample(name)[0] for value in tick.values} == {None}

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            (
                "dmon-2x-error-prof-unrecoverable",
                [("error", "The third-party Profiling module returned an unrecoverable error", None)],
            ),
            (
                "dmon-3x-error-connect",
                [("error", "host: localhost", None), ("error", "Host engine connection invalid/disconnected.", None)],
            ),
            ("dmon-3x-error-module-not-loaded", [("error", "not currently loaded", -33)]),
            ("dmon-441-gb200-all-na", [("stopped", "dmon was stopped due to receiving a signal", None)]),
        ],
    )
    def test_messages(self, name: str, expected: list[tuple[str, str, int | None]]) -> None:
        ticks, parser = sample(name)
        messages = parser.drain_messages()
        assert len(messages) == len(expected)
        for message, (kind, ending, code) in zip(messages, expected, strict=True):
            assert (message.kind, message.code) == (kind, code)
            assert message.text.endswith(ending)
        assert bool(ticks) == (name == "dmon-441-gb200-all-na")
        assert parser.rejected == {}

    def test_a_capture_cut_at_any_place_gives_only_its_own_ticks(self) -> None:
        for path in sorted((SAMPLES / "dmon").glob("*.txt")):
            text = path.read_text()
            whole = [table(tick) for tick in read(text)[0]]
            for end in range(0, len(text), 7):
                found = [table(tick) for tick in read(text[:end])[0]]
                assert found[:-1] == whole[: len(found) - 1] if found else True
                for entity, values in found[-1].items() if found else ():
                    assert values in (whole[len(found) - 1][entity], [None] * len(values))


def test_a_live_stream_names_its_columns_by_what_was_asked_for() -> None:
    """dmon cuts names to 9 characters: two fields of a C2C link have the same one."""
    header = "#Entity         C2CLNKERR                   POWER        "
    parser = DmonParser(requested=["C2CLNKERR.2", ""])
    for line in (
        header,
        "ID                                          W            ",
        "GPU 0           3                           95.000       ",
    ):
        parser.feed(line)
    tick = parser.finish()
    assert tick is not None
    assert [series.name for series in tick.layout.series] == ["C2CLNKERR.2", "POWER"]
    assert list(tick.values) == [3, 95.0]
