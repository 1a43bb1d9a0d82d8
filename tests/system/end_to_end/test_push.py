"""The agents of docs/push.md, as they are written there, between a real daemon and real servers."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, environment, free_port, serving
from tests.support.nightly import nightly_after
from tests.support.prometheus import Prometheus, prometheus, victoria_metrics
from tests.support.tools import tool
from tests.support.waiting import SECONDS, until
from tools.generate_docs import ROOT

TEXT = (ROOT / "docs/push.md").read_text(encoding="utf-8")
SERIES = '{job="pulsed",instance="%s",cluster="a"}'

Server = Callable[[Path], contextlib.AbstractContextManager[Prometheus]]


def receiving_prometheus(folder: Path) -> contextlib.AbstractContextManager[Prometheus]:
    return prometheus(folder, "", "--web.enable-remote-write-receiver")


@contextlib.contextmanager
def agent(title: str, folder: Path, daemon: Daemon, server: Prometheus) -> Iterator[None]:
    """Run the configuration and the command of a section; only hosts, folders and the interval are replaced."""
    section = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    ((file, config, command),) = re.findall(
        r"Save this as `(.*?)`.*?```yaml\n(.*?)```.*?```sh\n(.*?)```", section, re.DOTALL
    )
    program = command.split()[0]
    tool(program, {"vmagent": "victoria-metrics"}.get(program, program))
    places = {
        "gpu-1.example:9401": daemon.address,
        "scrape_interval: 15s": "scrape_interval: 1s",
        **dict.fromkeys(re.findall(r"server\.example:\d+", section), f"127.0.0.1:{server.port}"),
        **dict.fromkeys(re.findall(r"localhost:\d+", command), f"127.0.0.1:{free_port()}"),
        file: str(folder / "agent.yaml"),
        "/var/lib/": f"{folder}/",
    }

    def here(text: str) -> str:
        for each, other in places.items():
            text = text.replace(each, other)
        return text

    (folder / "agent.yaml").write_text(here(config))
    with (folder / "agent.log").open("w") as log:
        process = subprocess.Popen(["sh", "-c", f"exec {here(command)}"], stdout=log, stderr=log, env=environment())
        try:
            yield
        finally:
            process.terminate()
            process.wait(SECONDS)


def names(daemon: Daemon) -> set[str]:
    """Return the names of the series on the page."""
    lines = daemon.get("/metrics").text.splitlines()
    return {line.partition("{")[0].partition(" ")[0] for line in lines if line[0] != "#"}


@pytest.mark.parametrize("run", nightly_after(1, [receiving_prometheus, victoria_metrics]))
@pytest.mark.parametrize("title", ["Prometheus in agent mode", "vmagent"])
def test_a_server_has_what_is_on_the_page(tmp_path: Path, title: str, run: Server) -> None:
    """The server sees also that the daemon ends."""
    with run(tmp_path) as server, serving(tmp_path, "--source", "demo", "--set", "node=gpu-1") as daemon:
        series = SERIES % daemon.address
        with agent(title, tmp_path, daemon, server):
            server.wait_for(f"pulsed_gpu_real_utilization_ratio{series}")
            server.wait_for(f"up{series} == 1")
            until(lambda: names(daemon) <= {each["metric"]["__name__"] for each in server.ask(series)})
            assert daemon.stop() == 0
            server.wait_for(f"up{series} == 0")
            until(lambda: server.ask(f"pulsed_build_info{series}") == [])
