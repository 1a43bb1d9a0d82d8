from __future__ import annotations

import math
from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from pulsed.compute.class_table import DEFAULT_THRESHOLDS, VARIABLES, ClassThresholds, Profile, Variable
from pulsed.compute.classifier import AT_MOST, Classifier
from pulsed.model.computed_tick import Bounds, Inputs
from pulsed.model.vocabulary import CLASSES
from pulsed.present.promql.regions import Box, Order, Regions
from tests.support.examples import examples

edges = st.one_of(st.sampled_from([0.0, 0.05, 0.15, 0.2, 0.4, 0.5, 0.8]), st.floats(0, 1.2))
tables = st.builds(
    ClassThresholds, **{field.name: edges for field in fields(ClassThresholds) if field.name != "io_bytes_per_second"}
)
ratios = st.one_of(st.sampled_from([0.0, 0.05, 0.15, 0.2, 0.4, 0.5, 0.8, 1.0]), st.floats(0, 1))
spans = st.one_of(
    ratios.map(lambda value: (value, value)),
    st.tuples(ratios, ratios).map(lambda pair: (min(pair), max(pair))),
    st.just((0.0, 1.0)),
)
traffic = st.sampled_from([(0.0, 0.0), (1e9, 1e9), (0.0, math.inf), (2e9, math.inf)])


def possible(regions: Regions, name: str, low: dict[Variable, float], high: dict[Variable, float]) -> bool:
    """Read a region as the rules do."""

    def meets(box: Box) -> bool:
        return all(low[each] < side.end and high[each] >= side.start for each, side in box.sides.items())

    def contradicted(order: Order) -> bool:
        lesser, greater = order
        return any(
            bound[lesser] >= at_least and bound[greater] < below
            for at_least, below in regions.contradictions(order)
            for bound in (low, high)
        )

    region = regions.of[name]
    return any(meets(box) for box in region.boxes) or any(
        meets(box) and all(any(map(contradicted, chain)) for chain in chains) for box, chains in region.noise
    )


@examples(300)
@given(
    st.one_of(st.just(DEFAULT_THRESHOLDS), tables),
    st.sampled_from(["pulsed", "kempnerpulse"]),
    st.tuples(*[spans] * 6),
    traffic,
    ratios,
)
def test_regions_equal_the_classifier(
    thresholds: ClassThresholds,
    profile: Profile,
    shares: tuple[tuple[float, float], ...],
    io: tuple[float, float],
    media: float,
) -> None:
    """Whatever the inputs can be, with any thresholds, contradictions of physics included."""
    low = dict(zip(VARIABLES, [pair[0] for pair in (*shares, io, (media, media))], strict=True))
    high = dict(zip(VARIABLES, [pair[1] for pair in (*shares, io, (media, media))], strict=True))
    bounds = Bounds(Inputs(*[pair[0] for pair in shares[:5]]), Inputs(*[pair[1] for pair in shares[:5]]))
    workload = Classifier(thresholds, profile).classify(bounds, shares[5], io, media)
    regions = Regions(thresholds, profile)
    found = tuple(name for name in CLASSES if possible(regions, name, low, high))
    assert found == (workload.candidates or (workload.raw_class,))


def test_the_default_table_needs_few_boxes_and_no_noise() -> None:
    regions = Regions(DEFAULT_THRESHOLDS)
    assert set(regions.of) == set(CLASSES)
    assert sum(len(region.boxes) for region in regions.of.values()) < 60
    assert not any(region.noise for region in regions.of.values())


def test_contradictions_are_seen_at_thresholds_only() -> None:
    pairs = {order: Regions(DEFAULT_THRESHOLDS).contradictions(order) for order in AT_MOST}
    assert pairs["tensor", "sm"] == ((0.15, 0.15), (0.5, 0.5))
    assert pairs["sm", "graphics_engine"] == ((0.15, 0.15), (0.4, 0.4))
