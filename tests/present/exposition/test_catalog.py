"""Which families are published, and that a lean page loses nothing."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.collector.collector import Pipeline
from pulsed.compute.gpu_table import GpuTable
from pulsed.model.clocks import Monotonic
from pulsed.model.gpu import RESERVED_LABELS
from pulsed.model.target_store import Target, TargetStore
from pulsed.owners.report.owner_totals import GROUPS
from pulsed.present.exposition.catalog import FULL, NAMES, OWN_PREFIXES, SeriesChoice, catalog, form_of
from pulsed.present.exposition.gpu_series import MIN_HOLD_SECONDS
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry
from pulsed.reader.demo.source import DemoSource
from tests.present.strategies import NOW, boards
from tests.support.examples import examples
from tests.system.end_to_end.series import Row, rows

LEAN = catalog("lean")
EXPECTED = Path(__file__).parents[2] / "golden/expected"
STATE_SETS = ("workload_class", "bottleneck", "limiting_resource")
COUNTERS_BY_LABEL = ("workload_class_seconds", "class_energy_joules", "idle_seconds", "idle_energy_joules")
INTEGRALS = r"energy|sm_active|tensor_active|dram_active|(pcie|nvlink|c2c)_(transmit|receive)"

AT_ZERO = re.compile(
    rf"({'|'.join(STATE_SETS)}|({'|'.join(COUNTERS_BY_LABEL)}|(health|xid)_events|({INTEGRALS})_unknown_seconds)_total"
    r"|(integer|tensor_(hmma|imma|dfma))_active_ratio|(encoder|decoder|memory)_utilization_ratio|nvlink_bandwidth_bytes_per_second)"
)
"""Families without the prefix whose series may be absent from a lean page, if they are 0."""

LEFT_OUT = re.compile(
    r"health_state|real_utilization_distribution_ratio_(bucket|sum|count)|resource_saturation_ratio|memory_free_bytes"
    r"|(pcie|nvlink)_(transmit|receive)_bytes_per_second|accounting_created_timestamp_seconds|workload_class_changes_total"
    r"|health_check_last_event_timestamp_seconds|xid_last|.*_cycles_total|diag_.*|nvlink_link_transmit_waits_total"
)
"""Families that are replaced: by severity, summaries, integrals and differences."""


def page_of(
    made: TargetStore, series: SeriesChoice, now: float = NOW
) -> dict[tuple[str, frozenset[tuple[str, str]]], Row]:
    """Return the GPU series of a page on which new counters have their values."""
    pages = Pages(made, Telemetry(made), PageSettings(catalog(series)))
    for seconds in (0.0, MIN_HOLD_SECONDS / 2, MIN_HOLD_SECONDS):
        text = pages.page(Monotonic(now + seconds), openmetrics=False, gzip=False).decode()
    return {(row.name, row.labels): row for row in rows(text) if row.name.startswith("pulsed_gpu_")}


def is_implied(row: Row, full: dict[tuple[str, frozenset[tuple[str, str]]], Row]) -> bool:
    """Return whether a series that a lean page lacks follows from what it has."""
    suffix, value = row.name.removeprefix("pulsed_gpu_"), float(row.value)
    if LEFT_OUT.fullmatch(suffix) or (AT_ZERO.fullmatch(suffix) and value == 0):
        return True
    if suffix == "health_check":
        return value <= 0
    other = {"lower": "upper", "upper": "lower"}.get(row.label("bound"), "")
    labels = {(name, other if name == "bound" else text) for name, text in row.labels}
    return suffix.endswith("_bound_ratio") and float(full[row.name, frozenset(labels)].value) == value


@examples(60)
@given(boards())
def test_a_lean_page_has_the_values_of_the_full_one_and_lacks_only_what_follows_from_it(made: TargetStore) -> None:
    for target in made.targets:  # none becomes stale meanwhile
        target.stale_after += MIN_HOLD_SECONDS if target.fresh(Monotonic(NOW)) else 0.0
    full, lean = page_of(made, "full"), page_of(made, "lean")
    assert {key: row.value for key, row in lean.items()}.items() <= {
        key: row.value for key, row in full.items()
    }.items()
    assert [row for key, row in full.items() if key not in lean and not is_implied(row, full)] == []


def test_error_counters_and_limits_are_the_same_in_both() -> None:
    kept = [
        name for name in NAMES if re.search(r"ecc_|remap|retired|replay|_errors|violation|limit|_max_|slowdown", name)
    ]
    assert len(kept) > 40
    assert [name for name in kept if form_of(name) != "every" and "limiting" not in name] == []


@pytest.mark.slow
async def test_no_gpu_ever_has_more_than_a_hundred_series_besides_those_by_check_and_xid() -> None:
    """An hour of samples every 5 s: GPU 7 has eight checks and three XIDs, GPU 2 an unknown class at times."""
    source, pipeline = DemoSource(0, 5.0, pace=False, start=1767225600.0), Pipeline(GpuTable(), "n")
    store = TargetStore("n", [Target("demo", "demo", 5.0, 60.0)])
    pages = Pages(store, Telemetry(store), PageSettings(LEAN))
    most, most_of_all = Counter[str](), Counter[str]()
    for seconds in range(0, 3600, 5):
        store.targets[0].accept(pipeline.process(await source.read()), Monotonic(float(seconds)))
        if seconds % 15 == 0:
            page = pages.page(Monotonic(float(seconds)), openmetrics=False, gzip=False).decode()
        if seconds % 150 == 0 or seconds == 3595:
            found = [row for row in rows(page) if row.label("uuid")]
            by_check = Counter((row.label("gpu"), row.label("check")) for row in found if row.label("check"))
            assert max(by_check.values(), default=0) <= 6, "severity, start, texts, two readings and a counter"
            every = Counter(row.label("gpu") for row in found)
            most_of_all |= every
            most |= Counter(row.label("gpu") for row in found if not row.label("check") and not row.label("xid"))
    assert len(most) == 8
    assert max(most.values()) <= 100
    assert max(most_of_all.values()) <= 140
    assert min(most.values()) > 75, "inputs are missing"
    of_all = [row for row in rows(page) if not row.label("uuid") and not row.name.startswith(OWN_PREFIXES)]
    assert len(of_all) <= 60, "once per daemon"


def test_include_goes_before_lean_and_exclude_before_all() -> None:
    chosen = catalog("lean", ["pulsed_gpu_health_*", "pulsed_gpu_workload_class"], ["*_state", "pulsed_quantity_gpus"])
    forms = {family.name: form for family, form, _ in chosen.derived}
    assert forms["pulsed_gpu_workload_class"] == forms["pulsed_gpu_health_check"] == "every"
    assert forms["pulsed_gpu_bottleneck"] == "current"
    assert "pulsed_gpu_health_state" not in forms
    assert chosen.summaries == LEAN.summaries - {"pulsed_quantity_gpus"}
    assert catalog("lean", ["pulsed_job_gpus"], ["pulsed_*_gpus"]).owners == LEAN.owners - {
        f"pulsed_{group}_gpus" for group in ("job", "pod", "workload")
    }


def test_full_has_every_family() -> None:
    names = {family.name for family in FULL.families} | FULL.summaries | FULL.owners
    assert names == set(NAMES)


@pytest.mark.parametrize("series", ["lean", "full"])
@given(data=st.data())
@examples(20)
def test_any_selection_is_a_valid_page(series: SeriesChoice, data: st.DataObject) -> None:
    from tests.present.exposition.pages import families_of

    patterns = st.lists(st.sampled_from([*NAMES, "pulsed_gpu_*_total", "*ratio", "*"]), max_size=4)
    made, include, exclude = data.draw(boards()), data.draw(patterns), data.draw(patterns)
    pages = Pages(made, Telemetry(made), PageSettings(catalog(series, include, exclude)))
    for openmetrics in (False, True):
        families_of(pages.page(Monotonic(NOW), openmetrics=openmetrics, gzip=False).decode(), openmetrics)


def test_groups_of_targets_cannot_set_labels_of_families() -> None:
    page = "".join(path.read_text() for path in EXPECTED.rglob("*") if path.is_file())
    samples = re.findall(r"^pulsed_(?:gpu|source)\w*\{(.*)\} ", page, re.MULTILINE)
    assert {name for labels in samples for name in re.findall(r'(\w+)="', labels)} <= RESERVED_LABELS
    assert {name for group in GROUPS.values() for name in group.labels} <= RESERVED_LABELS
