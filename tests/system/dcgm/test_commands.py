"""One-shot commands on an engine that another client watches: its values are there at once, others are not."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsed.translate.fields import fields_to_watch
from tests.support.daemon import pulsed
from tests.support.dcgm import RealDcgm, running
from tests.support.waiting import until

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def watched(dcgm: RealDcgm) -> Iterator[None]:
    """Watch the fields of every tick, as a daemon does."""
    fast, _ = fields_to_watch(("core", "health"))
    command = [str(dcgm.dcgmi), "dmon", "--host", dcgm.host, "-e", ",".join(map(str, fast)), "-d", "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(8):
            process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def test_a_snapshot_of_a_watched_engine_has_everything(h100: RealDcgm) -> None:
    with watched(h100):
        for _ in range(3):
            result = pulsed("snapshot", *h100.serves("dcgmi"), "--format", "json")
            gpus = json.loads(result.stdout)["gpus"]
            assert [gpu["serial"] for gpu in gpus] == [h100.gpu(index, "serial") for index in range(2)]
            assert min(gpu["health"]["coverage"] for gpu in gpus) >= 13 / 27


def test_the_doctor_gives_three_answers_about_what_is_missing() -> None:
    with running("gb200", 1) as dcgm, watched(dcgm):
        result = pulsed("doctor", *dcgm.serves("dcgmi"), "--format", "json")
        (source,) = json.loads(result.stdout)["sources"]
        supply = {text.partition(": ")[2].partition(". ")[2]: text for text in source["supply"]}
        assert "230 DEV_XID_ERRORS" in supply["There is a value after the first event"]
        assert "1523 DEV_GET_GPU_RECOVERY_ACTION" in supply["This GPU, or its driver, does not have it"]
        assert not any("not asked for" in text or "not answered" in text for text in source["supply"])
        assert not any(" 53 " in text or "310 " in text for text in source["supply"])


def test_an_exporter_starts_with_the_counters_that_the_doctor_recommends(h100: RealDcgm, tmp_path: Path) -> None:
    h100.stop_exporter()
    h100.start_exporter(h100.counters("default-counters.csv"))
    result = pulsed("doctor", *h100.serves("exporter"), "--format", "json")
    (source,) = json.loads(result.stdout)["sources"]
    assert source["supply"]
    counters = tmp_path / "counters.csv"
    counters.write_text("\n".join((h100.counters("default-counters.csv").read_text(), *source["supply"], "")))
    h100.stop_exporter()
    h100.start_exporter(counters)
    until(lambda: b"DCGM_FI_PROF_SM_ACTIVE{" in h100.exporter_page())
