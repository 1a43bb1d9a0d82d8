from __future__ import annotations

import gzip
import math
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import BadPage
from pulsed.reader.exposition.parser import FORGET_AFTER_PAGES, Page, PageParser
from pulsed.reader.exposition.row import PageLimits
from tests.reader.exposition.reading import Identity, Samples, in_one_go, line_by_line, same, samples
from tests.support.examples import examples
from tests.support.samples import SAMPLES, needs_samples
from tools.bench.pages import exporter_page


def parse_or_refuse(parser: PageParser, page: bytes) -> tuple[Samples, int, dict[str, int]] | str:
    try:
        result = parser.parse(page)
    except BadPage as problem:
        return str(problem)
    return samples(result), result.samples, dict(result.rejected)


# --- pages, generated ---

FAMILY_NAMES = st.sampled_from(["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE", "a:b", "energy", "_x", "go_threads"])
LABEL_NAMES = st.sampled_from(["gpu", "UUID", "modelName", "pod", "err_msg", "_a"])
LABEL_VALUES = st.sampled_from(
    ["", "0", "GPU-1", "x} 5", "} ", "{", '"', "\\", "\n", ",", "#", "\x0b", "\x85", "\u2028"]
)
LABEL_VALUES |= st.text(st.characters(codec="utf-8"), max_size=5)
LABELS = st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=4)
VALUES = st.one_of(
    st.floats().map(repr),
    st.integers(0, 10**19).map(str),
    st.sampled_from(["NaN", "+Inf", "-Inf", "nan", "1e3", "0.000000", "9223372036854775794", "140737488355328.000000"]),
)
SPACES = st.sampled_from([" ", " ", " ", "  ", "\t"])
TAILS = st.sampled_from(["", "", "", " 1395066363000", "\t1395066363000", " "])
NOISE = st.sampled_from(
    ["", "", "# a comment", "#", "# HELP energy in } 5 \\n", "# HELP a:b {", "# TYPE energy gauge", "# EOF", " "]
)
# Each of these costs itself, and nothing else.
JUNK = st.sampled_from(
    [
        'X{gpu="0"} ERROR - FAILED TO CONVERT TO STRING',
        'X{gpu="0"} ',
        'X{gpu="0"',
        "X{gpu=0} 5",
        'X{gpu="a"b"} 5',
        'X{gpu="0"} 1_000',
        'X{gpu="0"} ١٢',
        "time=2026-01-01 level=error",
        "body></html>",
        "} 5",
        "5",
        "\ufffd\x00\x01",
    ]
)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@st.composite
def rows(draw: st.DrawFn) -> tuple[str, Identity, str]:
    """One row: its line, what it is, and its value."""
    name, labels, value = draw(FAMILY_NAMES), draw(LABELS), draw(VALUES)
    separator, comma = draw(st.sampled_from([("=", ","), ("=", ","), ("=", ", "), (" = ", " , ")]))
    inner = comma.join(f'{label}{separator}"{escaped(text)}"' for label, text in labels.items())
    bare = draw(st.booleans()) and not labels
    block = "" if bare else f"{{{inner}}}"
    line = f"{draw(st.sampled_from(['', '', ' ']))}{name}{block}{draw(SPACES)}{value}{draw(TAILS)}"
    return line, (name, tuple(sorted(labels.items()))), same(float(value))


@st.composite
def pages(draw: st.DrawFn) -> tuple[str, Samples, int, int]:
    """A page, what is on it, and how many rows are good and bad."""
    lines: list[str] = []
    expected: Samples = {}
    drawn = draw(st.lists(rows(), min_size=1, max_size=8))
    bad = 0
    for line, identity, value in drawn:
        lines += draw(st.lists(NOISE, max_size=2))
        if draw(st.integers(0, 5)) == 0:
            lines.append(draw(JUNK))
            bad += 1
        lines.append(line)
        expected[identity] = value  # a series given twice: the last one
    text = draw(st.sampled_from(["\n", "\n", "\r\n"])).join(lines) + draw(st.sampled_from(["\n", ""]))
    return text, expected, len(drawn), bad


@examples(200)
@given(pages())
def test_a_page_is_read_right_cold_and_warm(drawn: tuple[str, Samples, int, int]) -> None:
    text, expected, good, bad = drawn
    parser = PageParser()
    cold = parser.parse(text.encode())
    assert samples(cold) == expected
    assert line_by_line(text) == expected or "١" in text  # prometheus_client reads the digits of any script
    assert (cold.samples, sum(cold.rejected.values())) == (good, bad)
    for _ in range(3):
        warm = parser.parse(text.encode())
        assert samples(warm) == expected
        assert (warm.samples, warm.rejected) == (cold.samples, cold.rejected)
        assert warm.layout is cold.layout


@examples(200)
@given(pages(), pages())
def test_what_came_before_changes_nothing(
    before: tuple[str, Samples, int, int], drawn: tuple[str, Samples, int, int]
) -> None:
    parser = PageParser()
    parser.parse(before[0].encode())
    assert parse_or_refuse(parser, drawn[0].encode()) == parse_or_refuse(PageParser(), drawn[0].encode())


EDITS = st.sampled_from(
    [*'}{" \\,#_5eN\n\t', "} ", "} 5", " # ", "\n5", "5\n", "\n\n", "١", "\x0b", "\u00a0", "\r", ""]
)


@examples(300)
@given(pages(), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2), EDITS), min_size=1, max_size=3))
def test_a_warm_parser_reads_a_damaged_page_as_a_cold_one_does(
    drawn: tuple[str, Samples, int, int], edits: list[tuple[int, int, str]]
) -> None:
    """No text that is remembered may be hit by a line that a full reading would reject or read otherwise."""
    text = drawn[0]
    parser = PageParser()
    for _ in range(2):
        parser.parse(text.encode())
    damaged = text
    for place, cut, insert in edits:
        at = place % (len(damaged) + 1)
        damaged = damaged[:at] + insert + damaged[at + cut :]
    assert parse_or_refuse(parser, damaged.encode()) == parse_or_refuse(PageParser(), damaged.encode())
    assert samples(parser.parse(text.encode())) == drawn[1]


@st.composite
def openmetrics_pages(draw: st.DrawFn) -> str:
    """A valid OpenMetrics page: counters with exemplars, gauges, units, timestamps."""
    lines: list[str] = []
    for number in range(draw(st.integers(1, 4))):
        counter = draw(st.booleans())
        name = f"family{number}_seconds"
        lines += [
            f"# TYPE {name} {'counter' if counter else 'gauge'}",
            f"# UNIT {name} seconds",
            f"# HELP {name} \\\\o/",
        ]
        stamp = draw(st.sampled_from(["", " 1520879607.789"]))
        for labels in draw(st.lists(LABELS, max_size=4, unique_by=lambda labels: tuple(sorted(labels.items())))):
            inner = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
            value = draw(st.integers(0, 10**6).map(str) if counter else VALUES)
            exemplar = (
                draw(st.sampled_from(["", ' # {trace_id="x} 5"} 0.5', " # {} 7 1520879607.7"])) if counter else ""
            )
            lines.append(f"{name}{'_total' * counter}{{{inner}}} {value}{stamp}{exemplar}")
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


@examples(100)
@given(openmetrics_pages())
def test_openmetrics_pages(text: str) -> None:
    parser = PageParser()
    expected = in_one_go(text, openmetrics=True)
    for _ in range(3):
        page = parser.parse(text.encode())
        assert samples(page) == expected
        assert page.rejected == {}
    assert all(text == "\\o/" for text in page.layout.help.values())


# --- real pages ---

REAL = sorted((SAMPLES / "exporter").glob("*.prom")) if SAMPLES.is_dir() else []


@needs_samples
@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_pages(path: Path) -> None:
    body = path.read_bytes()
    text = body.decode()
    parser = PageParser()
    cold = parser.parse(body)
    expected = line_by_line(text)
    assert samples(cold) == expected
    assert cold.samples > 5
    if not cold.rejected:
        assert in_one_go(text) == expected
    warm = parser.parse(body)
    assert (warm.layout, samples(warm), warm.samples, warm.rejected) == (
        cold.layout,
        expected,
        cold.samples,
        cold.rejected,
    )
    for kind, texts in (("HELP", cold.layout.help), ("TYPE", cold.layout.types)):
        written = dict(re.findall(rf"^# {kind} (\S+) (.*)$", text, re.MULTILINE))
        assert texts == written


# --- one thing at a time ---

GPU = '{gpu="0",UUID="GPU-1"}'


def one(page: Page, name: str) -> float | str | None:
    (value,) = [value for series, value in zip(page.layout.series, page.values, strict=True) if series.name == name]
    return value


def test_an_empty_page_keeps_the_layout() -> None:
    parser = PageParser()
    assert parser.parse(b"").samples == 0
    full = parser.parse(exporter_page(2))
    for _ in range(3 * FORGET_AFTER_PAGES):
        empty = parser.parse(b"")
        assert empty.samples == 0
        assert empty.layout is full.layout
        assert set(empty.values) == {None}
    assert parser.parse(exporter_page(2)) == full


def test_layout_stays_while_the_series_stay() -> None:
    parser = PageParser()
    first = parser.parse(exporter_page(8, seed=1))
    assert first.samples == len(first.values) == 320
    assert first.layout.dialect == "exporter"
    for seed in range(2, 6):
        text = exporter_page(8, seed=seed)
        page = parser.parse(text)
        assert page.layout is first.layout
        assert samples(page) == line_by_line(text.decode())


def test_a_new_series_makes_a_new_layout_and_an_absent_one_does_not() -> None:
    parser = PageParser()
    first = parser.parse(b"a{x='1'} 1\na{x=\"1\"} 1\nb 2\n")
    second = parser.parse(b'a{x="1"} 3\n')
    assert second.layout is first.layout
    assert second.values == [3.0, None]
    third = parser.parse(b'c 5\na{x="1"} 4\n')
    assert third.layout is not first.layout
    assert third.layout.series[:2] == first.layout.series
    assert third.values == [4.0, None, 5.0]
    assert parser.parse(b"b 6\n").layout is third.layout


def test_series_are_found_again_once_pages_are_read_by_lines_again() -> None:
    parser = PageParser()
    first = parser.parse(exporter_page(2, seed=1))
    assert parser.parse(exporter_page(2, seed=2)).layout is first.layout
    text = exporter_page(2, seed=3).decode()
    rows = [row for row in text.splitlines() if not row.startswith("#")]
    for _ in range(3):
        rows.reverse()
        page = parser.parse("".join(f"{row}\n" for row in rows).encode())
        assert page.layout is first.layout
        assert samples(page) == line_by_line(text)
    page = parser.parse(f"{text}new 1\n".encode())
    assert page.layout.series[:-1] == first.layout.series
    assert page.layout.help == first.layout.help


def test_other_help_or_type_makes_a_new_layout() -> None:
    parser = PageParser()
    plain = parser.parse(b"a 1\n").layout
    helped = parser.parse(b"# HELP a One.\n# TYPE a gauge\na 1\n").layout
    assert plain is not helped
    assert (helped.help, helped.types) == ({"a": "One."}, {"a": "gauge"})
    other = parser.parse(b"# HELP a Two.\n# TYPE a gauge\na 1\n").layout
    assert other.help == {"a": "Two."}
    assert (helped.help, other.types) == ({"a": "One."}, {"a": "gauge"}), "a layout once given out never changes"
    assert parser.parse(b"# HELP a Two.\na 1\n").layout is other
    again = parser.parse(b"# HELP a One.\n# TYPE a gauge\na 1\n").layout
    assert again.help == {"a": "One."}


def test_a_page_that_says_help_twice_does_not_make_a_layout_each_time() -> None:
    # Two exporters' pages in one file; random order of dcgm-exporter's entity groups.
    text = b"# HELP a (in C)\na 1\n# HELP a (in \xc2\xb0C)\nb%s 2 7\n"
    parser = PageParser()
    first = parser.parse(text)
    assert first.layout.help == {"a": "(in °C)"}
    for _ in range(5):
        assert parser.parse(text).layout is first.layout


def test_help_is_unescaped() -> None:
    assert PageParser().parse(b"# HELP a x\\\\y\\nz\n# TYPE a label\na 1\n").layout.help == {"a": "x\\y\nz"}


def test_the_order_of_labels_does_not_make_another_series() -> None:
    parser = PageParser()
    first = parser.parse(b'a{x="1",y="2"} 1\n')
    second = parser.parse(b'a{y="2", x="1"} 2\n')
    assert second.layout is first.layout
    assert second.values == [2.0]
    assert first.layout.series[0].labels == (("x", "1"), ("y", "2"))


def test_the_last_of_a_series_given_twice_wins() -> None:
    text = 'a{x="1"} %d\nb{x="1"} 9\na{x="1"} %d\n'
    parser = PageParser()
    for number in range(5):
        page = parser.parse((text % (number, number + 100)).encode())
        assert page.values == [number + 100.0, 9.0]
        assert page.samples == 3


def test_rows_of_the_exporter_that_other_parsers_die_of() -> None:
    parser = PageParser()
    for _ in range(3):
        page = parser.parse(
            f'A{GPU} 1\nB{GPU} ERROR - FAILED TO CONVERT TO STRING\nC{GPU} Enabled\nD{GPU} 4\nE{{gpu="0",UU'.encode()
        )
        assert samples(page) == line_by_line(f"A{GPU} 1\nD{GPU} 4")
        assert page.rejected == {"bad_value": 2, "bad_labels": 1}


def test_a_known_series_whose_value_goes_bad_is_missing() -> None:
    parser = PageParser()
    good = parser.parse(exporter_page(1))
    broken = exporter_page(1).replace(b'No Error"} 0\n', b'No Error"} ERROR - FAILED TO CONVERT TO STRING\n')
    page = parser.parse(broken)
    assert page.layout is good.layout
    assert page.values.count(None) == 1
    assert page.rejected == {"bad_value": 1}
    assert parser.parse(exporter_page(1)) == good


def test_blank_values_of_dcgm_come_through() -> None:
    page = PageParser().parse(
        f"A{GPU} 9223372036854775794\nB{GPU} 2147483632\nC{GPU} 140737488355328.000000\n".encode()
    )
    assert page.values == [9223372036854775794.0, 2147483632.0, 140737488355328.0]


def test_a_row_without_braces_is_not_a_row_with_a_stray_one() -> None:
    parser = PageParser()
    parser.parse(b"up 1\ndown 1\n")
    page = parser.parse(b'up } 2\nup} 3\ndown 4\nup {x="1"} 5\n')
    assert (one(page, "down"), page.samples, sum(page.rejected.values())) == (4.0, 2, 2)
    assert samples(page) == {("down", ()): "4.0", ("up", (("x", "1"),)): "5.0"}


def test_a_line_split_in_two_is_not_joined() -> None:
    parser = PageParser()
    for _ in range(2):
        parser.parse(f"A{GPU} 1\nB{GPU} 2\n".encode())
    page = parser.parse(f"A{GPU} \n1\nB{GPU} 2\n".encode())
    assert (one(page, "A"), one(page, "B")) == (None, 2.0)
    assert page.rejected == {"bad_value": 1, "bad_name": 1}


def test_two_values_on_a_line_do_not_slip_into_the_next_row() -> None:
    parser = PageParser()
    for _ in range(2):
        parser.parse(f"A{GPU} 1\nB{GPU} 2\nC{GPU} 3\n".encode())
    page = parser.parse(f"A{GPU} 5}} 6\nC{GPU} 7\n".encode())
    assert (one(page, "A"), one(page, "B"), one(page, "C")) == (None, None, 7.0)


def test_values_without_braces_are_never_taken_for_constant() -> None:
    parser = PageParser()
    for number in range(6):
        page = parser.parse(f"A{GPU} 1\ngo_threads {number}\n".encode())
        assert (one(page, "A"), one(page, "go_threads")) == (1.0, float(number))


def test_blocks_of_families_in_changing_order() -> None:
    # dcgm-exporter walks its entity groups in random order, so that no two pages need look alike.
    families = exporter_page(2, seed=3).decode().split("# HELP ")[1:]
    parser = PageParser()
    layout = parser.parse(exporter_page(2, seed=3)).layout
    for seed in range(150):
        random.Random(seed).shuffle(families)
        text = "".join(f"# HELP {family}" for family in families)
        page = parser.parse(text.encode())
        assert page.layout is layout
        assert samples(page) == line_by_line(text) if seed % 50 == 0 else page.samples == 80


# --- bytes that are no page ---


@pytest.mark.parametrize(
    "body",
    [
        b"<!doctype html><html><body>404 page not found</body></html>",
        b"\n  <html>\nup 1\n</html>",
        b"\xef\xbb\xbf<html></html>",
        b"404 page not found\n",
        b"Service Unavailable",
        b'{"error": "no such page",\n "code": 500}',
        gzip.compress(exporter_page(1)),
        exporter_page(1).decode().encode("utf-16"),
        bytes(range(256)),
    ],
    ids=["html", "html-with-a-row", "html-bom", "text", "text-503", "json", "gzip", "utf-16", "binary"],
)
def test_what_is_no_page_is_refused_and_forgotten(body: bytes) -> None:
    parser = PageParser()
    known = parser.parse(exporter_page(1))
    for _ in range(2 * FORGET_AFTER_PAGES):
        with pytest.raises(BadPage) as caught:
            parser.parse(body)
        assert caught.value.remedy.startswith("Check ")
    again = parser.parse(exporter_page(1))
    assert again.layout is known.layout
    assert again == known


@pytest.mark.parametrize("body", [gzip.compress(b"up 1\n", mtime=0), "up 1\n".encode("utf-16"), bytes(range(256))])
def test_binary_is_called_binary(body: bytes) -> None:
    with pytest.raises(BadPage, match="binary"):
        PageParser().parse(body)


def test_bytes_of_another_encoding_do_not_cost_the_page() -> None:
    parser = PageParser()
    for _ in range(3):
        page = parser.parse(b'# HELP a in \xb0C\na{pod="caf\xe9"} 1\na{pod="caf\xe8"} 2\nb{pod="\xff"} 3\nc 4\n')
        assert page.values == [1.0, 2.0, 3.0, 4.0]
        assert page.rejected == {}
    assert page.layout.series[0].labels != page.layout.series[1].labels
    for series in page.layout.series:
        repr(series).encode()  # can be republished


def test_only_a_line_feed_ends_a_line() -> None:
    for odd in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r":
        page = PageParser().parse(f'a{{pod="x{odd}y"}} 1\n'.encode())
        assert page.layout.series[0].labels == (("pod", f"x{odd}y"),)


# --- memory ---


def kept(parser: PageParser) -> int:
    """Everything that the parser remembers, counted in entries."""
    return sum(len(value) for value in vars(parser).values() if isinstance(value, dict | list | set))


def xid_page(number: int) -> bytes:
    row = f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",err_code="{number}",pod="p{number}"}} {number}\n'
    return exporter_page(1, fields=5, seed=number) + row.encode()


def test_series_that_churn_are_forgotten_and_live_ones_never() -> None:
    parser = PageParser()
    layouts = set()
    sizes = []
    for number in range(400):
        page = parser.parse(xid_page(number))
        layouts.add(page.layout)
        assert page.samples == 6
        assert samples(page) == samples(PageParser().parse(xid_page(number)))
        assert len(page.values) <= 2 * 6 + 2 * FORGET_AFTER_PAGES
        sizes.append(kept(parser))
    assert max(sizes[200:]) <= max(sizes[:100]) < 200
    assert len(layouts) >= 400  # a new series is a new layout


def test_a_pod_that_restarts_finds_its_series_again() -> None:
    parser = PageParser()
    full = parser.parse(exporter_page(4))
    for _ in range(FORGET_AFTER_PAGES - 1):
        assert parser.parse(exporter_page(1)).layout is full.layout
    assert parser.parse(exporter_page(4)) == full


def test_gpus_that_are_gone_for_good_are_forgotten() -> None:
    parser = PageParser()
    full = parser.parse(exporter_page(4))
    for _ in range(FORGET_AFTER_PAGES + 1):
        page = parser.parse(exporter_page(1))
    assert page.layout is not full.layout
    assert page.layout.series == PageParser().parse(exporter_page(1)).layout.series
    assert None not in page.values
    back = parser.parse(exporter_page(4))
    assert samples(back) == samples(full)


def test_families_that_are_forgotten_take_their_help_along() -> None:
    parser = PageParser()
    parser.parse(exporter_page(1))
    for number in range(2 * FORGET_AFTER_PAGES):
        page = parser.parse(f"# HELP a {number}\n# TYPE a counter\na_total {number}\n".encode())
    assert set(page.layout.help) == set(page.layout.types) == {"a"}
    assert page.values == [2.0 * FORGET_AFTER_PAGES - 1]


@pytest.mark.parametrize(
    "line",
    [
        "# generated at {}",
        "# HELP nobody_{} x",
        "# HELP a x{}",
        'a{{b="1",c="{}"}} bad',
        'nobody_{}{{b="1"}} bad',
        "nobody_{} bad",
    ],
)
def test_texts_that_change_from_page_to_page_do_not_pile_up(line: str) -> None:
    parser = PageParser()
    for number in range(60):
        texts = [line.format(100 * number + row) for row in range(100)]
        page = parser.parse("\n".join(['a{b="1"} 7', "a_x 8", *texts]).encode())
        assert page.values == [7.0, 8.0]
        assert kept(parser) < 5000


def test_spellings_that_change_from_page_to_page_do_not_pile_up() -> None:
    parser = PageParser()
    layout = parser.parse(b'a{b="1"} 7').layout
    for number in range(60):
        texts = ["a{" + " " * (100 * number + row) + 'b="1"} 8' for row in range(100)]
        page = parser.parse("\n".join(texts).encode())
        assert (page.layout, page.values) == (layout, [8.0])
        assert kept(parser) < 5000


def test_series_and_label_sets_are_limited_by_devices() -> None:
    limits = PageLimits(spare_series=3, device_series=2, spare_label_sets=2, device_label_sets=1)
    rows = [f'a{{gpu="{gpu}",pod="{pod}"}} 1\n' for gpu in range(3) for pod in range(2)]
    page = PageParser(limits).parse("".join(rows).encode())
    assert (page.samples, page.rejected) == (5, {"too_many_series": 1})
    page = PageParser(limits).parse("".join(f'a{number}{{gpu="0"}} 1\n' for number in range(9)).encode())
    assert (page.samples, page.rejected) == (5, {"too_many_series": 4})


def test_pages_that_are_refused_do_not_pile_up() -> None:
    parser = PageParser()
    for number in range(60):
        with pytest.raises(BadPage):
            parser.parse("\n".join(f'# {number}/{row}\nx{row}{{a="{number}"}} bad' for row in range(100)).encode())
    assert kept(parser) < 5000


def test_max_series() -> None:
    parser = PageParser(PageLimits(max_series=50))
    for _ in range(3):
        page = parser.parse(exporter_page(2))
        assert page.samples == len(page.values) == 50
        assert page.rejected == {"too_many_series": 30}


def test_a_page_that_is_new_each_time_stays_within_the_limit() -> None:
    parser = PageParser(PageLimits(max_series=100))
    for number in range(50):
        page = parser.parse("".join(f'a{{n="{number}-{row}"}} {row}\n' for row in range(80)).encode())
        assert len(page.values) <= 300
    assert page.samples > 0


def test_label_limits_cost_the_row() -> None:
    many = ",".join(f'l{number}="x"' for number in range(101))
    text = f'a{{pod="{"x" * 1025}"}} 1\na{{{many}}} 2\na{{pod="{"x" * 1024}"}} 3\n# HELP a {"x" * 20000}\n'
    page = PageParser().parse(text.encode())
    assert page.values == [3.0]
    assert page.rejected == {"too_long": 1, "too_many_labels": 1}
    assert page.layout.help == {}


def test_labels_are_shared_by_the_families_of_a_gpu() -> None:
    layout = PageParser().parse(exporter_page(2)).layout
    assert len({id(series.labels) for series in layout.series}) == 4  # of two GPUs, and again with err_code


def test_not_a_number_and_infinity() -> None:
    page = PageParser().parse(f"A{GPU} NaN\nB{GPU} +Inf\nC{GPU} -Inf\n".encode())
    assert isinstance(page.values[0], float)
    assert math.isnan(page.values[0])
    assert page.values[1:] == [math.inf, -math.inf]
