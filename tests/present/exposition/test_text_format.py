"""Hostile labels and HELP texts: programs that split a page at other characters read no other lines."""

from __future__ import annotations

import pytest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from pulsed.present.exposition.text_format import lines

CONTROLS = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029]))
FORGED = 'a\r# TYPE forged gauge\rforged{x="y"} 1\r'


@pytest.mark.parametrize("openmetrics", [False, True])
def test_control_characters_are_written_out(openmetrics: bool) -> None:
    for text in [*CONTROLS, CONTROLS, FORGED, "\\r", '\\"\n']:
        family = GaugeMetricFamily("name", f"help {text}.", labels=["label"])
        family.add_metric([f"begin{text}"], 1.0)
        written = list(lines([family], openmetrics))
        page = "".join(written)
        assert page.splitlines() == page.removesuffix("\n").split("\n"), text
        parse = parse_openmetrics if openmetrics else parse_text
        (read,) = parse(f"{page}# EOF\n" if openmetrics else page)
        (sample,) = read.samples
        expected = "".join(f"\\u{ord(each):04x}" if each in CONTROLS and each != "\n" else each for each in text)
        assert sample.labels == {"label": f"begin{expected}"}, text
        assert read.documentation == f"help {expected}.", text
