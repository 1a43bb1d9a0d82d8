"""Processors of superchips: on the metrics page, and in the energy of a job."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.daemon import pulsed, serving
from tests.support.exporters import Exporter, exporting
from tests.support.waiting import until


def page(node: str, watts: float = 900.0) -> str:
    """Return the page of a GPU of a job, and of its processor."""
    gpu = f'gpu="0",UUID="GPU-0",device="nvidia0",modelName="NVIDIA GB200",Hostname="{node}",hpc_job="4711"'
    cpu = f'cpu="0",Hostname="{node}"'
    return (
        f"DCGM_FI_PROF_SM_ACTIVE{{{gpu}}} 0.9\nDCGM_FI_DEV_POWER_USAGE{{{gpu}}} {watts:g}\n"
        f"DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT{{{cpu}}} 150\nDCGM_FI_DEV_MODULE_POWER_UTIL_CURRENT{{{cpu}}} 2300\n"
    )


class WorkingExporter(Exporter):
    """Its power changes from page to page."""

    def answer(self) -> str:
        """Return the body of one answer."""
        return page("n1", 900.0 + self.asked % 7)


def test_the_power_of_processors_is_published_and_counts_for_their_job(tmp_path: Path) -> None:
    with exporting(defaultdict(lambda: WorkingExporter(""))) as url:
        keys = ("source.interval=1s", "host.job_interval=200ms", f"source.exporter.targets={url}", "node=n1")
        arguments = [f"--set={key}" for key in ("source.kind=exporter", *keys)]
        with serving(tmp_path, *arguments, ready=True) as daemon:
            text = daemon.get("/metrics").text
            assert 'pulsed_node_cpu_power_watts{node="n1",cpu="0"} 150' in text
            assert 'pulsed_node_module_power_watts{node="n1",cpu="0"} 2300' in text

            def joules() -> float:
                answer = daemon.get("/jobs/4711")
                hosts = answer.json()["hosts"] if answer.status == 200 else []
                return sum(float(host["balance"].get("cpu_power_watts", {}).get("integral", 0.0)) for host in hosts)

            until(lambda: joules() > 600.0)  # the page has changed twice
            sums = daemon.get("/jobs/4711").json()["hosts"][0]["balance"]["cpu_power_watts"]
            assert sums["integral"] == pytest.approx(150.0 * sums["seconds"])
            assert "; processors of its nodes " in pulsed("job", "4711", f"http://{daemon.address}").stdout
