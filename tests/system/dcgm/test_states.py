"""Faults that are injected while three daemons read the same board, each by another source."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path

import pytest

from tests.support.daemon import serving
from tests.support.dcgm import running
from tests.support.nightly import nightly_rows_after
from tests.support.waiting import until
from tests.system.dcgm.answers import check_of

pytestmark = pytest.mark.slow

_SOURCES = {
    "dcgmi": "source.dcgmi.slow_interval=2s",
    "exporter": "source.interval=1s",
    "nvml": "source.nvml.slow_interval=2s",
}

FAULTS = [
    ("fail --mode lost --xid 79", "gpu_lost", "crit"),
    ("nvlink-error 250", "nvlink_errors", "crit"),
    ("set remapped_rows.pending=true remapped_rows.uncorrectable=3", "row_remap_pending", "warn"),
    ("fail --mode ecc_uncorrectable --xid 48", "xid_critical", "crit"),
    ("fail --mode ecc_uncorrectable --xid 63", "xid_warning", "warn"),
    ("fail --mode ecc_uncorrectable --xid 79", "gpu_lost", "crit"),
    ("fail --mode ecc_uncorrectable --xid 94", "xid_warning", "warn"),
    ("sram-ecc --type secded --source sm --threshold-exceeded 4", "memory_unrepairable", "crit"),
    ("temp 91", "temp_margin", "crit"),
    ("throttle thermal hw_slowdown", "thermal_hw", "hot"),
    ("set pcie.current_link_width=4 pcie.current_link_gen=1", "pcie_link", "crit"),
    ("fabric-health route_unhealthy", "fabric_link", "crit"),
]
"""Arguments of `nvml-mock-ctl` but for the GPU, the check, and its state."""


RAISED_SECONDS = 180.0
"""Some checks are raised after a minute."""

_NOT_ON_PAGE = {("exporter", "fabric_link")}
"""This dcgm-exporter does not know the fields of the fabric's health."""


@pytest.mark.parametrize(("fault", "check", "state"), nightly_rows_after(3, FAULTS))
def test_all_sources_judge_a_fault_alike(fault: str, check: str, state: str, tmp_path: Path) -> None:
    with running("h100", exporter=True) as dcgm, contextlib.ExitStack() as stack:
        daemons = [
            stack.enter_context(
                serving(tmp_path, *dcgm.serves(source), "--set", interval, ready=True, **dcgm.variables(source))
            )
            for source, interval in _SOURCES.items()
        ]
        command, *words = fault.split()
        for daemon in daemons:
            until(partial(lambda daemon: check_of(daemon, 1, check) in ("ok", "unknown"), daemon))
            until(partial(lambda daemon: check_of(daemon, 1, "ecc_uncorrectable") == "ok", daemon))
        dcgm.control(command, "--gpu", "1", *words)
        for source, daemon in zip(_SOURCES, daemons, strict=True):
            if (source, check) in _NOT_ON_PAGE:
                continue
            until(partial(lambda daemon: check_of(daemon, 1, check) == state, daemon), RAISED_SECONDS)
            assert check_of(daemon, 0, check) in ("ok", "unknown"), "the other GPU is well"
