"""Label selectors, held against those of the fake API server, and annotations of pods."""

from __future__ import annotations

import pytest

from pulsed.kubernetes.objects import parse_selector, pod_metadata
from tests.support.kubernetes.fake_api_server import pod, selector

LABELS = {"app": "web", "tier": "a", "empty": "", "example.org/part-of": "x.y_z"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app == web", True),
        ("app=web,tier=a", True),
        ("app=web,tier=b", False),
        ("app=", False),
        ("empty=", True),
        ("none=", False),
        ("app!=web", False),
        ("app!=other", True),
        ("none!=web", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("!app", False),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("app notin (web)", False),
        ("none notin (web)", True),
        ("none in (web)", False),
        ("app in (db,web),tier notin (b),!none", True),
        ("example.org/part-of=x.y_z", True),
    ],
)
def test_selectors(text: str, matches: bool) -> None:
    assert parse_selector(text)(LABELS) == matches
    assert selector({"labelSelector": text}, "")(pod("a", labels=LABELS)) == matches


@pytest.mark.parametrize("text", ["a b", "=a", "a=b c", "a in b", "a in (b", "!", "a>1", "a=b,=c"])
def test_what_is_not_a_selector(text: str) -> None:
    with pytest.raises(ValueError, match="is not a label selector"):
        parse_selector(text)


@pytest.mark.parametrize(
    ("annotations", "part"),
    [
        ({}, None),
        ({"gpu-fraction": "0.5"}, 0.5),
        ({"gpu-fraction": "1"}, 1.0),
        ({"gpu-fraction": "2"}, None),
        ({"gpu-fraction": "half"}, None),
        ({"hami.io/vgpu-devices-allocated": "GPU-aa,NVIDIA,3000,30:;"}, 0.3),
        ({"hami.io/vgpu-devices-allocated": "GPU-aa,NVIDIA,3000,30:GPU-bb,NVIDIA,3000,50:;"}, 0.4),
        ({"hami.io/vgpu-devices-allocated": "GPU-aa,NVIDIA,3000,0:;"}, None),
    ],
)
def test_the_part_of_a_gpu_that_a_scheduler_of_fractions_gave_a_pod(
    annotations: dict[str, str], part: float | None
) -> None:
    """KAI's `gpu-fraction`, and HAMi's percent of the cores; 0 is no limit."""
    metadata = {"name": "a", "namespace": "b", "uid": "c", "annotations": annotations}
    assert pod_metadata({"metadata": metadata}, lambda name: False).allocated == part
