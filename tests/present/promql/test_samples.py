"""On other people's real pages, the rules say what pulsed says."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsed.compute.derived_results import result_of
from pulsed.compute.settings import ComputeSettings
from pulsed.translate.translator import Translator
from tests.present.promql.promtool import check, plain, selector
from tests.present.promql.test_rule_set import WRONG, recording, wanted
from tests.support.samples import SAMPLES, needs_samples
from tests.translate.build import page_tick

PAGES = sorted(path.name for path in (SAMPLES / "exporter").glob("*.prom"))


@pytest.mark.slow
@needs_samples
@pytest.mark.parametrize("name", PAGES)
def test_real_pages(tmp_path: Path, name: str) -> None:
    raw = page_tick((SAMPLES / "exporter" / name).read_text())
    series = {
        selector(each.name, dict(each.labels)): plain(value)
        for each, value in zip(raw.layout.series, raw.values, strict=True)
        if isinstance(value, int | float)
    }
    rows = {(dict(each.labels).get("gpu"), dict(each.labels).get("GPU_I_ID", "")) for each in raw.layout.series}
    canonical = Translator().translate(raw)
    compared = 0
    for device, reading in zip(canonical.devices, canonical.readings, strict=True):
        result = result_of(device, reading, ComputeSettings())
        entity = device.entity
        if (entity.gpu, entity.mig_id) not in rows:
            continue  # a board that only its MIG instances tell of
        labels = {"gpu": entity.gpu} | ({"GPU_I_ID": entity.mig_id} if entity.mig_id else {})
        for wanted_name, more, value in wanted(reading, result):
            series[selector(wanted_name, {**labels, **more})] = plain(value)
        compared += 1
    assert compared >= 1
    assert check(tmp_path, recording(ComputeSettings()), [series.items()], {0: WRONG}) == ""
