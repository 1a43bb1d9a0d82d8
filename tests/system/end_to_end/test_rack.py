"""A rack of nine nodes where one link fails: one alert names node, GPU and link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.support.daemon import pulsed, serving
from tests.support.exporters import Exporter, exporting
from tests.support.prometheus import CONFIG, prometheus
from tests.support.waiting import until

NODES = [f"rack1-{number:02}" for number in range(1, 10)]
GPUS, LINKS = 4, 18
CULPRIT, GPU, LINK = NODES[4], 2, 14


def page(node: str, codes: dict[int, int], down: int | None = None) -> str:
    """Return what dcgm-exporter shows of a node of GB200s: the last code by GPU, and the states of the links.

    Args:
        down: link of GPU `GPU` that is not up.
    """
    lines = []
    for gpu in range(GPUS):
        uuid = f"GPU-{node}-{gpu}"
        labels = f'gpu="{gpu}",UUID="{uuid}",Hostname="{node}",modelName="NVIDIA GB200"'
        samples = {"XID_ERRORS": codes.get(gpu, 0), "GPU_TEMP": 40, "GPU_UTIL": 90}
        lines += [f"DCGM_FI_DEV_{name}{{{labels}}} {value}" for name, value in samples.items()]
        lines += [
            f'DCGM_FI_DEV_NVLINK_GET_STATE{{nvlink="{link}",gpu="{gpu}",gpu_uuid="{uuid}"}} '
            f"{int((gpu, link) != (GPU, down))}"
            for link in range(LINKS)
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.timeout(180)
def test_one_alert_for_a_link_that_fails_in_a_rack(tmp_path: Path) -> None:
    rules = pulsed("rules", "--kind", "alerting").stdout
    (tmp_path / "rules.yaml").write_text(re.sub(r"for: \S+", "for: 0s", rules))
    exporters = {node: Exporter(page(node, {})) for node in NODES}
    with exporting(exporters) as url:
        targets = ",".join(f"{url}/{node}" for node in NODES)
        flags = ("--source", "exporter", "--set", f"source.exporter.targets=[{targets}]", "--set", "source.interval=1s")
        settings = yaml.safe_load(CONFIG.format(interval="1s", address="ADDRESS"))
        settings["rule_files"] = ["rules.yaml"]
        settings["global"]["evaluation_interval"] = "1s"
        with (
            serving(tmp_path, *flags) as daemon,
            prometheus(tmp_path, yaml.safe_dump(settings).replace("ADDRESS", daemon.address)) as server,
        ):
            server.wait_for(f"count(pulsed_gpu_info) == {len(NODES) * GPUS}")
            for node in NODES:  # those that follow are read first
                if node != CULPRIT:
                    exporters[node].body = page(node, dict.fromkeys(range(GPUS), 145))
            until(lambda: daemon.get("/metrics").text.count("pulsed_gpu_nvlink_fault_timestamp_seconds{") == 32)
            exporters[CULPRIT].body = page(CULPRIT, {GPU: 149, 0: 145}, LINK)
            firing = 'ALERTS{alertstate="firing",alertname=~"PulsedGpuHealth.*"}'
            server.wait_for(f'count({firing}) == 1 and count({firing[:-1]},link="14"}}) == 1')
            (alert,) = server.ask(firing)
            names = ("alertname", "severity", "node", "gpu", "link", "xid")
            assert {name: alert["metric"][name] for name in names} == {
                "alertname": "PulsedGpuHealthCritical",
                "severity": "critical",
                "node": CULPRIT,
                "gpu": str(GPU),
                "link": str(LINK),
                "xid": "149",
            }
            (link,) = [
                link
                for gpu in daemon.get("/gpus").json()["gpus"]
                for link in gpu["nvlinks"]
                if link["is_down"] and (gpu["node"], gpu["gpu"]) == (CULPRIT, str(GPU))
            ]
            assert (link["link"], link["state"]) == (LINK, "down")
            problems = {
                (row["node"], row["gpu"]): (problem["state"], problem["message"])
                for row in daemon.get("/health/gpus").json()
                for problem in row["problems"]
                if problem["id"] == "nvlink_fault"
            }
    assert len(problems) == 34
    state, _ = problems.pop((CULPRIT, str(GPU)))
    assert state == "crit"
    of_node = problems.pop((CULPRIT, "0"))[1]
    assert of_node.endswith(f"it follows XID 149 of GPU {GPU}")
    assert not any("follows" in message for _, message in problems.values()), "over nodes, the rules leave them out"
