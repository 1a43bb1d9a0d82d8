from __future__ import annotations

import math

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pulsed.model.raw_tick import Labels
from pulsed.reader.exposition.row import (
    ExpositionRow,
    PageLimits,
    RowRejected,
    read_metadata,
    read_number,
    read_row,
)
from tests.support.examples import examples

LIMITS = PageLimits()


def read(line: str, limits: PageLimits = LIMITS) -> ExpositionRow:
    return read_row(line, limits, {})


@pytest.mark.parametrize(
    ("line", "name", "labels", "value"),
    [
        ("up 1", "up", None, 1.0),
        ("up{} 1", "up", (), 1.0),
        ("up\t1", "up", None, 1.0),
        ('  up { a = "1" , b="2", }  1  ', "up", (("a", "1"), ("b", "2")), 1.0),
        ('up{a="1"}1', "up", (("a", "1"),), 1.0),
        ('up{a="1", b="2"} 1', "up", (("a", "1"), ("b", "2")), 1.0),  # dcgm-exporter 2.0 to 2.3
        ('up{a="1"} 1\r', "up", (("a", "1"),), 1.0),
        ('up{a="x} 7"} 1', "up", (("a", "x} 7"),), 1.0),
        ('up{a="{,=#"} 1', "up", (("a", "{,=#"),), 1.0),
        (r'up{a="q\"b\\n\nz"} 1', "up", (("a", 'q"b\\n\nz'),), 1.0),
        (r'up{path="C:\temp"} 1', "up", (("path", r"C:\temp"),), 1.0),  # unescaped, as dcgm-exporter to 4.8.2 prints
        ('up{pod=""} 1', "up", (("pod", ""),), 1.0),
        ('up{a="\x0b\x85\u2028°C"} 1', "up", (("a", "\x0b\x85\u2028°C"),), 1.0),
        ("rule:name:sum 1", "rule:name:sum", None, 1.0),
        ('up{a="1"} 1 1395066363000', "up", (("a", "1"),), 1.0),
        ('up{a="1"}  1\t1395066363.123 ', "up", (("a", "1"),), 1.0),
        ('up_total{a="1"} 17 # {trace_id="x} 9"} 0.67', "up_total", (("a", "1"),), 17.0),
        ('up_total{a="1"} 17 1.5 # {trace_id="x"} 0.67 1.6', "up_total", (("a", "1"),), 17.0),
        ('up_total 17 # {trace_id="x"} 0.67', "up_total", None, 17.0),
        ('up{a="1"} +Inf', "up", (("a", "1"),), math.inf),
        ('up{a="1"} -inf', "up", (("a", "1"),), -math.inf),
        ('up{a="1"} 1e3', "up", (("a", "1"),), 1000.0),
        ('up{a="1"} .5', "up", (("a", "1"),), 0.5),
        ('up{a="1"} 9223372036854775794', "up", (("a", "1"),), 9223372036854775794.0),
    ],
)
def test_rows(line: str, name: str, labels: Labels | None, value: float) -> None:
    row = read(line)
    assert (row.name, row.labels, row.value) == (name, labels, value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("5", "bad_name"),
        ("} 5", "bad_name"),
        ('{a="1"} 5', "bad_name"),
        ("nvidia-smi 5", "bad_name"),
        ('two words{a="1"} 5', "bad_value"),
        ("up", "bad_value"),
        ("up ", "bad_value"),
        ('up{a="1"}', "bad_value"),
        ('up{a="1"} ', "bad_value"),
        ('up{a="1"} ERROR - FAILED TO CONVERT TO STRING', "bad_value"),
        ('up{a="1"} Enabled', "bad_value"),
        ('up{a="1"} 1_000', "bad_value"),
        ('up{a="1"} 0x1p3', "bad_value"),
        ('up{a="1"} ١٢', "bad_value"),
        ('up{a="1"} 5\u00a0', "bad_value"),
        ('up{a="1"} 5 6 7', "bad_value"),
        ('up{a="1"} 5 soon', "bad_timestamp"),
        ('up{a="1"} 5 NaN', "bad_timestamp"),
        ('up{a="1"} 5 1_000', "bad_timestamp"),
        ('up{a="1', "bad_labels"),
        ('up{a="1"', "bad_labels"),
        ('up{a="1",', "bad_labels"),
        ('up{a="1" b="2"} 5', "bad_labels"),
        ('up{a="1",,b="2"} 5', "bad_labels"),
        ('up{a="x"y"} 5', "bad_labels"),
        ("up{a=1} 5", "bad_labels"),
        ("up{a} 5", "bad_labels"),
        ('up{1a="1"} 5', "bad_labels"),
        ('up{__name__="down"} 5', "bad_labels"),
        ('{"",a="1"} 5', "bad_name"),
        ('{"up" 5', "bad_name"),
        ('{"up"a="1"} 5', "bad_name"),
        ('up{""="1"} 5', "bad_labels"),
        ('up{"__x"="1"} 5', "bad_labels"),
    ],
)
def test_rejected_rows(line: str, reason: str) -> None:
    with pytest.raises(RowRejected) as caught:
        read(line)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("line", "name", "labels"),
    [
        ('{"up"} 5', "up", {}),
        ('{"DCGM_FI_DEV_GPU_TEMP",gpu="0"} 5', "DCGM_FI_DEV_GPU_TEMP", {"gpu": "0"}),
        ('{"dcgm.gpu.temp", gpu="0" , } 5', "dcgm_gpu_temp", {"gpu": "0"}),
        ('up{gpu="0","k8s.cluster.name"="a,b} "} 5', "up", {"gpu": "0", "k8s_cluster_name": "a,b} "}),
        ('{ "up" , "größe"="1", "9\\"x"="2" } 5', "up", {"gr__e": "1", "_9_x": "2"}),
    ],
)
def test_quoted_names_are_read_as_an_older_client_gets_them(line: str, name: str, labels: dict[str, str]) -> None:
    row = read(line)
    assert (row.name, dict(row.labels or ()), row.value) == (name, labels, 5.0)
    assert line.startswith(row.text + "}")


def test_metadata_of_a_quoted_name() -> None:
    assert read_metadata('# HELP "dcgm.gpu.temp" in C') == ("HELP", "dcgm_gpu_temp", "in C")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ('gpu="0",pod="own",gpu="1",UUID="GPU-a"', {"gpu": "0", "pod": "own", "UUID": "GPU-a"}),
        ('gpu="0",namespace="tenant",pod="a",namespace="own"', {"gpu": "0", "pod": "a"}),
        ('gpu="0",pod="a",pod="a"', {"gpu": "0", "pod": "a"}),
        ('gpu="0",pod="a",pod="b",pod="a"', {"gpu": "0"}),
        ('gpu="0",Hostname="node",Hostname="other"', {"gpu": "0", "Hostname": "node"}),
    ],
)
def test_a_label_of_a_pod_that_repeats_one_hides_no_gpu(text: str, labels: dict[str, str]) -> None:
    """dcgm-exporter before 4.8.3 writes labels of the pod behind its own ones: what it wrote first counts."""
    assert dict(read(f"up{{{text}}} 5").labels or ()) == labels


@pytest.mark.parametrize(
    ("tail", "time"),
    [
        ("5", None),
        ("5 1700000000000", 1.7e9),
        ("5 1700000000.25", 1700000000.25),
        ('5 1700000000 # {trace_id="a"} 1 1600000000', 1.7e9),
        ("5 -1", -1.0),
    ],
)
def test_timestamps_are_milliseconds_or_seconds(tail: str, time: float | None) -> None:
    assert read(f'up{{a="1"}} {tail}')[3:] == (5.0, time)


def test_nan_is_a_number() -> None:
    assert math.isnan(read('up{a="1"} NaN').value)


@pytest.mark.parametrize(
    ("line", "limits", "reason"),
    [
        ('up{a="12345"} 1', PageLimits(max_label_length=4), "too_long"),
        ('up{abcde="1"} 1', PageLimits(max_label_length=4), "too_long"),
        ('up{a="1",b="2",c="3"} 1', PageLimits(max_labels=2), "too_many_labels"),
        ('up{a="1",b="2",c="3"} 1', PageLimits(max_line_length=15), "too_long"),
        ("a" * 30 + " 1", PageLimits(max_line_length=20), "too_long"),
    ],
)
def test_limits(line: str, limits: PageLimits, reason: str) -> None:
    with pytest.raises(RowRejected) as caught:
        read(line, limits)
    assert caught.value.reason == reason
    assert read(line).value == 1.0


def test_label_blocks_are_shared_between_families() -> None:
    blocks: dict[str, Labels] = {}
    first = read_row('a{gpu="0",pod="x} y"} 1', LIMITS, blocks)
    second = read_row('b{gpu="0",pod="x} y"} 1', LIMITS, blocks)
    assert first.labels is second.labels
    # A block that only begins like a known one is none.
    assert read_row('b{gpu="0",pod="x} y",z="1"} 2', LIMITS, blocks).labels == (*(first.labels or ()), ("z", "1"))


def test_a_hostile_line_takes_no_quadratic_time() -> None:
    # 200,000 blanks inside the braces: a pattern that tries each split of them would not come back within the timeout.
    for line in ("up{" + " " * 200_000, 'up{a="1"} 5' + " " * 200_000 + "x", "up{" + 'a="1",' * 200_000):
        with pytest.raises(RowRejected):
            read(line)


@pytest.mark.parametrize("text", ["1_0", "", " ", "0x10", "1 2", "１", "--1", "5\u00a0", "five"])
def test_no_numbers(text: str) -> None:
    assert read_number(text) is None


def test_metadata() -> None:
    assert read_metadata("# HELP up Is it\\nup \\\\o/ °C ") == ("HELP", "up", "Is it\nup \\o/ °C")
    assert read_metadata("#\tHELP  up\r") == ("HELP", "up", "")
    assert read_metadata("# TYPE up gauge\r") == ("TYPE", "up", "gauge")
    assert read_metadata("# TYPE up label") == ("TYPE", "up", "label")  # an operator's CSV says what it likes
    for line in ("# TYPE up", "# HELP", "# HELP 9up x", "# UNIT up seconds", "# EOF", "#HELP up x", "# help up x", "#"):
        assert read_metadata(line) is None, line


# Each part of a row as it should be, or something that makes parsers stumble in its place.
TRICKY = st.text(st.sampled_from('ab{}"\\,= \t#_1.5eN\x0b\x85\u2028°١') | st.characters(codec="utf-8"), max_size=6)


def mostly(*good: str) -> st.SearchStrategy[str]:
    return st.integers(0, 9).flatmap(lambda die: TRICKY if die == 0 else st.sampled_from(good))


NAME = mostly("up", "up", " up", "a:b", "two words")
BLOCK = mostly("", "{}", '{a="1"}', '{a="x} 5",}', '{ a = "\\"}" , b="" }', '{,a="1"}', "{a='1'}")
VALUE = mostly("5", "-1.5e3", "NaN", "+Inf", "infinity", "1_0")
TAIL = mostly("", "", " 7", "\t7 ", "\r", ' # {a="b"} 1', ' 7 # {a="} 5"} 1 2', " 7 8", "}")
LINE = st.builds("{}{}{}{}{}".format, NAME, BLOCK, mostly(" ", "\t", "  "), VALUE, TAIL)


@examples(500)
@given(LINE)
def test_what_both_parsers_read_they_read_alike(line: str) -> None:
    """Where prometheus_client and this parser both read a row they must agree.

    prometheus_client also takes some rows that are better lost than believed: any text as a metric name before a brace
    (`two words{} 5`), digits of every script, more numbers after the timestamp, and quoted UTF-8 names, which could
    not be republished. It refuses some that are fine: a row with a broken exemplar.
    """
    line = line.replace("\n", "")
    assume(line.strip() and not line.strip().startswith("#"))
    try:
        families = list(text_string_to_metric_families(line))
        row = read(line)
    except (ValueError, RowRejected, IndexError):  # IndexError: prometheus_client on odd braces
        event("one of them rejects it")
        return
    ((sample,),) = [family.samples for family in families]
    assert (sample.name, sample.labels) == (row.name, dict(row.labels or ()))
    assert sample.value == row.value or (math.isnan(sample.value) and math.isnan(row.value))
