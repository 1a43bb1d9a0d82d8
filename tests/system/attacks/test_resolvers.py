"""A daemon that discovers exporters by DNS, with a resolver that hangs for some names, and names of many addresses."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.attacks.watch import peak_megabytes
from tests.support.control_group import control_group
from tests.support.daemon import serving
from tests.support.tools import shared_library
from tests.support.waiting import until

MEGABYTES = 128
SOURCE = Path(__file__).parents[2] / "support/attacks/resolver.c"


def test_the_daemon_survives_hostile_names(tmp_path: Path) -> None:
    library, marker = shared_library(SOURCE, tmp_path / "resolver.so", "-ldl"), tmp_path / "hangs"
    names = ["many.example", "none.invalid", *(f"{number}.hangs.example" for number in range(8))]
    exporter = {"discovery": "dns", "dns": {"names": names, "type": "A", "port": 9, "interval": 5}}
    source = json.dumps({"kind": "exporter", "interval": 5, "exporter": exporter})
    with (
        control_group(MEGABYTES * 2**20, 64) as within,
        serving(
            tmp_path,
            "--set",
            f"source={source}",
            ready=False,
            within=within,
            LD_PRELOAD=str(library),
            HANGS=str(marker),
        ) as daemon,
    ):
        until(marker.exists)
        until(lambda: "of 4000 targets 1024 are read" in daemon.log())
        page = daemon.get("/metrics").text
        assert 'pulsed_discovery_up{kind="dns",list="many.example"} 1' in page
        assert 'pulsed_discovery_up{kind="dns",list="7.hangs.example"} 0' in page
        assert "7.hangs.example: no answer within 10 s" in daemon.log()
        assert daemon.get("/-/healthy").status == 200
        assert peak_megabytes(daemon.process.pid) < MEGABYTES
        assert daemon.stop() == 0
        assert "stopped" in daemon.log()
