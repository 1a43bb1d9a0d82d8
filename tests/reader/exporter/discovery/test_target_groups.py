"""Groups of targets, in JSON and YAML, and what their labels do."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import TargetListError
from pulsed.reader.exporter.discovery.target_groups import (
    ListedTarget,
    TargetGroup,
    listed_targets,
    parse_json,
    parse_yaml,
)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("[]", []),
        (
            '[{"targets": ["a:1"], "labels": {"rack": "007"}}, {"targets": []}]',
            [TargetGroup(["a:1"], {"rack": "007"}), TargetGroup([], {})],
        ),
    ],
)
def test_json_is_yaml_too(text: str, groups: list[TargetGroup]) -> None:
    assert list(parse_json(text.encode(), "list")) == list(parse_yaml(text.encode(), "list")) == groups


def test_yaml_takes_texts_as_they_are_written() -> None:
    text = b"- targets: [gpu-1:9400]\n  labels: {rack: 007, on: yes}\n"
    assert list(parse_yaml(text, "list")) == [TargetGroup(["gpu-1:9400"], {"rack": "007", "on": "yes"})]
    assert parse_yaml(b"", "list") == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{}", "not a list of groups"),
        ("[null]", "group 0 has other keys"),
        ('[{"targets": [], "source": 1}]', "group 0 has other keys"),
        ('[{"targets": "a:1"}]', "targets of group 0 are not a list of texts"),
        ('[{"labels": {"a": 1}}]', "labels of group 0 are not texts"),
        ('[{"labels": {"__metrics_path__": "/\\ud800"}}]', "labels of group 0 are not texts"),
        ('[{"targets": ["\\ud800:1"]}]', "targets of group 0 are not a list of texts"),
        (f'[{{"labels": {{"a": "{"x" * 257}"}}}}]', "the label a of group 0 has over 256 characters"),
        (f'[{{"labels": {{"__a__": "{"x" * 2049}"}}}}]', "the label __a__ of group 0 has over 2048 characters"),
        (json.dumps([{"labels": {f"l{number}": "" for number in range(33)}}]), "group 0 has more than 32 labels"),
        ('[{"labels": {"a b": "1"}}]', "which is not a name of a label"),
        ("[" * 100_000, "not valid JSON"),
        ("[", "not valid JSON"),
    ],
)
def test_a_list_that_is_refused(text: str, error: str) -> None:
    with pytest.raises(TargetListError, match=re.escape(error)):
        parse_json(text.encode(), "list")


def test_duplicate_keys_of_yaml_are_refused() -> None:
    with pytest.raises(TargetListError, match="given twice"):
        parse_yaml(b"- targets: [a:1]\n  targets: [b:1]\n", "list")


def test_labels_with_two_underscores_say_how_a_target_is_scraped() -> None:
    labels = {
        "rack": "r1",
        "cluster": "c",
        "empty": "",
        "__scheme__": "https",
        "__metrics_path__": "/gpu",
        "__param_module": "a b",
        "__scrape_interval__": "30s",
        "__scrape_timeout__": "500ms",
        "__meta_datacenter": "x",
    }
    problems: list[str] = []
    assert list(listed_targets([TargetGroup(["[fd00::1]:9400"], labels)], problems)) == [
        ListedTarget(
            "[fd00::1]:9400",
            "https://[fd00::1]:9400/gpu?module=a+b",
            (("cluster", "c"), ("rack", "r1")),
            30.0,
            0.5,
        )
    ]
    assert problems == []


@pytest.mark.parametrize(
    ("target", "labels", "left", "problem"),
    [
        ("a:1/metrics", {}, 0, "it is not host:port"),
        ("a:0", {}, 0, "it is not host:port"),
        ("http://a:1", {}, 0, "it is not host:port"),
        ("a:1", {"gpu": "5", "node": "b"}, 1, "the labels gpu, node of a group are left out"),
        ("a:1", {"__scheme__": "ftp"}, 0, "allowed: http, https"),
        ("a:1", {"__scrape_interval__": "10ms"}, 0, "durations from 1 s"),
    ],
)
def test_what_cannot_be_used_is_left_out(target: str, labels: dict[str, str], left: int, problem: str) -> None:
    problems: list[str] = []
    found = list(listed_targets([TargetGroup([target], labels)], problems))
    assert [each.labels for each in found] == [()] * left
    assert [problem in each for each in problems] == [True]


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["targets", "labels", "__scheme__", "x"]), inner)
        ),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused(document: object) -> None:
    try:
        groups = parse_json(json.dumps(document).encode(), "list")
    except TargetListError:
        return
    for target in listed_targets(groups, []):
        assert target.url.startswith(("http://", "https://"))
