"""A GPU that DCGM drops, while the exporter goes on with rows of its own collectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import serving
from tests.support.dcgm import RealDcgm
from tests.support.waiting import until
from tests.system.dcgm.answers import check_of, facts_of

pytestmark = pytest.mark.slow


def is_dropped(dcgm: RealDcgm) -> bool:
    rows = [line for line in dcgm.exporter_page().decode().splitlines() if 'gpu="1"' in line]
    return bool(rows) and all(line.startswith("DCGM_EXP_") for line in rows)


def test_a_dropped_gpu_keeps_its_serial_number_and_is_lost_also_after_a_restart(h100: RealDcgm, tmp_path: Path) -> None:
    with serving(tmp_path, *h100.serves("exporter")) as daemon:
        until(lambda: check_of(daemon, 1, "gpu_lost") == "ok")
        before = facts_of(daemon, 1)
        assert before["serial"] == h100.gpu(1, "serial") != h100.gpu(0, "serial")
        h100.control("fail", "--gpu", "1", "--mode", "lost", "--xid", "79")
        until(lambda: is_dropped(h100))
        until(lambda: check_of(daemon, 1, "gpu_lost") == "crit")
        assert facts_of(daemon, 1) == before
        assert facts_of(daemon, 0)["serial"] == h100.gpu(0, "serial")
    with serving(tmp_path, *h100.serves("exporter")) as daemon:
        until(lambda: check_of(daemon, 1, "gpu_lost") == "crit")
        facts = facts_of(daemon, 1)
        assert facts["uuid"] == before["uuid"]
        assert not facts["serial"]
        h100.control("reset", "--gpu", "1")
        until(lambda: not is_dropped(h100))
        until(lambda: facts_of(daemon, 1) == before)
