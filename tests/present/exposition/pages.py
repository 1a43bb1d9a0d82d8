"""Pages with republished series, and what is valid on them."""

from __future__ import annotations

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.present.exposition.page import Pages, PageSettings
from pulsed.present.exposition.telemetry import Telemetry

NOW = 100.0


def page_of(made: TargetStore, openmetrics: bool = False, *, passthrough: bool = True) -> str:
    """Return the page at NOW, with the source's own series unless told otherwise."""
    pages = Pages(made, Telemetry(made), PageSettings(passthrough=passthrough))
    return pages.page(Monotonic(NOW), openmetrics=openmetrics, gzip=False).decode()


def republished(made: TargetStore, openmetrics: bool = False) -> list[str]:
    """Return the lines of DCGM's series."""
    return [line for line in page_of(made, openmetrics).splitlines() if "DCGM_" in line.split("{")[0]]


def families_of(page: str, openmetrics: bool) -> list[Metric]:
    """Parse a page as prometheus_client does; no family and no series may occur twice."""
    families = list((parse_openmetrics if openmetrics else parse_text)(page))
    assert len({family.name for family in families}) == len(families)
    series = [(one.name, frozenset(one.labels.items())) for family in families for one in family.samples]
    assert len(series) == len(set(series))
    return families


def count_of_dcgm(families: list[Metric]) -> int:
    """Return the number of DCGM's samples."""
    return sum(sample.name.startswith("DCGM_FI_") for family in families for sample in family.samples)
