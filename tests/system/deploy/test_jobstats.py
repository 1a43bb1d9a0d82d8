"""jobscope, and the queries of jobstats, on a Prometheus that scrapes pulsed: their numbers are those of `/jobs`.

jobstats is not on PyPI: its queries are recorded here (jobstats 1.0.0, with and without GPU_EXPORTER_JOBID). jobscope
0.1.1 runs as it is, with a made `sacct`.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.daemon import environment
from tests.support.dashboards import demo_with_users
from tests.support.prometheus import Prometheus, prometheus
from tests.support.waiting import SECONDS
from tests.system.deploy.tools import fetched

CLUSTER, NODE, JOB, GPUS = "hpc1", "gpu07", 5001, 3
CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
scrape_configs:
  - job_name: pulsed
    honor_labels: true
    static_configs: [{{targets: ["{address}"]}}]
    relabel_configs:
      - {{target_label: cluster, replacement: {cluster}}}
      - {{target_label: slurm_cluster, replacement: {cluster}}}
      - {{source_labels: [__address__], target_label: host}}
"""
PLAYED_SECONDS = 25
SAMPLING = 0.1
"""What two samplers of the same 25 values may differ by: each misses some at either end."""

SACCT = """\
#!/bin/sh
# JobID|State|JobName|Elapsed|NNodes|AllocTRES|Start|End|JobIDRaw|Cluster|User|AdminComment
echo '{job}|COMPLETED|train|00:00:25|1|cpu=8,gres/gpu={gpus}|{start}|{end}|{job}|{cluster}|ann|'
"""


AVERAGES = (
    ("SM_ACT%", "sm_active_seconds", 100, 1.0),
    ("TENSOR%", "tensor_active_seconds", 100, 1.0),
    ("DRAM%", "dram_active_seconds", 100, 1.0),
    ("POWER_W", "class_energy_joules", 1, 700.0),
)
"""Columns of jobscope, the integral that is in the account, the unit, and the range of values."""

LAG_SECONDS = 3.0
"""Age of a value at a step of a subquery: an interval of the source, one of the scrape, one of a busy machine."""


class Played(NamedTuple):
    """A Prometheus after some seconds of a job, those seconds, and the job's account at their begin and end."""

    server: Prometheus
    start: int
    end: int
    before: dict[str, Any]
    after: dict[str, Any]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    folder = tmp_path_factory.mktemp("jobstats")
    options = ("--set", "publish.compat=jobstats", "--set", "publish.passthrough=true")
    with (
        demo_with_users(folder, NODE, *options) as daemon,
        prometheus(folder, CONFIG.format(address=daemon.address, cluster=CLUSTER)) as server,
    ):
        server.wait_for(f"nvidia_gpu_jobId == {JOB}")
        start, before = int(time.time()), daemon.get(f"/jobs/{JOB}").json()
        time.sleep(PLAYED_SECONDS)
        yield Played(server, start, int(time.time()), before, daemon.get(f"/jobs/{JOB}").json())


def ask(played: Played, query: str) -> dict[str, float]:
    """Return the answer at the end of the job, by minor number."""
    found = played.server.ask(
        query % {"cluster": CLUSTER, "job": JOB, "seconds": played.end - played.start}, time=str(played.end)
    )
    assert all(series["metric"]["instance"].startswith("127.0.0.1:") for series in found)
    return {series["metric"]["minor_number"]: float(series["value"][1]) for series in found}


def by_gpu(account: dict[str, Any], *path: str) -> dict[str, float]:
    """Return a value of an account per GPU, of a counter with states their sum."""
    found = {}
    for each in account["gpus"]:
        value: Any = each
        for key in path:
            value = value[key]
        found[each["gpu"]] = sum(value.values()) if isinstance(value, dict) else value
    return found


def means(played: Played, counter: str) -> dict[str, float]:
    """Return the mean of an integral over the seconds that were played, per GPU."""
    (seconds, seconds_before), (integral, integral_before) = (
        [by_gpu(account, "counters", name) for account in (played.after, played.before)]
        for name in ("observed_seconds", counter)
    )
    return {gpu: (integral[gpu] - integral_before[gpu]) / (seconds[gpu] - seconds_before[gpu]) for gpu in integral}


OF_JOB = (
    "{0}_over_time({1}{{cluster='%(cluster)s',jobid='%(job)s'}}[%(seconds)ds:])",
    "{0}_over_time(({1}{{cluster='%(cluster)s'}} and nvidia_gpu_jobId == %(job)s)[%(seconds)ds:])",
)
"""The forms of jobstats' queries, with GPU_EXPORTER_JOBID and without."""


@pytest.mark.parametrize("form", OF_JOB, ids=["label", "series"])
def test_the_queries_of_jobstats(played: Played, form: str) -> None:
    size = ask(played, form.format("max", "nvidia_gpu_memory_total_bytes"))
    used = ask(played, form.format("max", "nvidia_gpu_memory_used_bytes"))
    duty = ask(played, form.format("avg", "nvidia_gpu_duty_cycle"))
    assert size == by_gpu(played.after, "memory_bytes")
    assert used == pytest.approx(by_gpu(played.after, "peaks", "memory_used_bytes"), rel=SAMPLING)
    assert duty.keys() == used.keys() == {"0", "4", "7"}
    averages = f"avg_over_time(pulsed_gpu_gpu_utilization_ratio[{played.end - played.start}s:])"  # at the same steps
    seen = played.server.ask(averages, time=str(played.end))
    ratios = {series["metric"]["gpu"]: float(series["value"][1]) for series in seen}
    assert duty == pytest.approx({gpu: 100 * ratios[gpu] for gpu in duty}, abs=100 * SAMPLING)
    assert (
        ask(played, "max_over_time((nvidia_gpu_jobUid{cluster='%(cluster)s'} == 1001)[%(seconds)ds:])").keys()
        == duty.keys()
    )


def test_jobscope(played: Played, tmp_path: Path) -> None:
    library = fetched("jobscope")
    start, end = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at)) for at in (played.start, played.end))
    sacct = tmp_path / "sacct"
    sacct.write_text(SACCT.format(job=JOB, gpus=GPUS, start=start, end=end, cluster=CLUSTER))
    sacct.chmod(0o755)
    settings = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(library),
        "JOBSCOPE_PROM_URL": f"http://127.0.0.1:{played.server.port}",
        "HOME": str(tmp_path),
        "USER": "ann",
    }
    command = [sys.executable, "-m", "jobscope", "dcgm", "--ext", "--csv", str(JOB)]
    done = subprocess.run(
        command, env=environment() | settings, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("JOBID,") :]
    rows = {row["GPU"]: row for row in csv.DictReader(table.splitlines()) if row["JOBID"]}
    assert rows.keys() == {"0", "4", "7"}
    for column, counter, unit, scale in AVERAGES:
        moved = LAG_SECONDS / PLAYED_SECONDS * scale
        shown = {gpu: float(row[column]) / unit for gpu, row in rows.items()}
        assert shown == pytest.approx(means(played, counter), rel=SAMPLING, abs=moved), column
    peaks = by_gpu(played.after, "peaks", "power_watts")
    assert {gpu: float(row["PWRmax_W"]) for gpu, row in rows.items()} == pytest.approx(peaks, rel=SAMPLING)
