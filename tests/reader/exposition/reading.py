"""What a page says, as this parser and as prometheus_client reads it, in a form that can be compared."""

from __future__ import annotations

import re
from contextlib import suppress

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from pulsed.reader.exposition.parser import Page

Identity = tuple[str, tuple[tuple[str, str], ...]]
Samples = dict[Identity, str]


def same(value: float) -> str:
    """A number as text that is equal where the numbers are, NaN included."""
    return repr(float(value))


def samples(page: Page) -> Samples:
    assert len(page.values) == len(page.layout.series)
    found: Samples = {}
    for series, value in zip(page.layout.series, page.values, strict=True):
        if value is not None:
            assert isinstance(value, float)
            identity = (series.name, tuple(sorted(series.labels)))
            assert identity not in found, "one series in two slots"
            found[identity] = same(value)
    return found


def line_by_line(text: str) -> Samples:
    """prometheus_client's reading, one line at a time: one bad row would end its generator for the whole page.

    Without a TYPE line it does not rename counters either.
    """
    found: Samples = {}
    for line in text.split("\n"):
        with suppress(ValueError, IndexError):  # the latter is a bug of its own
            for family in text_families(line):
                for sample in family.samples:
                    found[sample.name, tuple(sorted(sample.labels.items()))] = same(sample.value)
    return found


def in_one_go(text: str, *, openmetrics: bool = False) -> Samples:
    """prometheus_client's reading of a whole page without bad rows, with its `_total` undone.

    Under `# TYPE X counter` it calls the sample `X_total`, as OpenMetrics would; a re-exporter must keep the name.
    """
    counters = set(re.findall(r"^# TYPE (\S+) counter", text, re.MULTILINE))
    found: Samples = {}
    families = openmetrics_families(text) if openmetrics else text_families(text)  # type: ignore[no-untyped-call]
    for family in families:
        for sample in family.samples:
            bare = sample.name.removesuffix("_total")
            name = bare if not openmetrics and bare in counters and sample.name not in counters else sample.name
            found[name, tuple(sorted(sample.labels.items()))] = same(sample.value)
    return found
