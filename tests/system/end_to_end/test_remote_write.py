"""Remote write of a real daemon to real servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, serving
from tests.support.prometheus import Prometheus, prometheus, victoria_metrics
from tests.support.waiting import until


def receiving_prometheus(folder: Path) -> contextlib.AbstractContextManager[Prometheus]:
    return prometheus(folder, "", "--web.enable-remote-write-receiver")


def names(daemon: Daemon) -> set[str]:
    """Return the names of the series on the page."""
    lines = daemon.get("/metrics").text.splitlines()
    return {line.partition("{")[0].partition(" ")[0] for line in lines if line[0] != "#"}


@pytest.mark.parametrize("run", [receiving_prometheus, victoria_metrics])
def test_a_server_has_what_is_on_the_page(
    tmp_path: Path, run: Callable[[Path], contextlib.AbstractContextManager[Prometheus]]
) -> None:
    """And no longer, once the daemon has stopped."""
    with run(tmp_path) as server:
        url = f"http://127.0.0.1:{server.port}/api/v1/write"
        options = [f"publish.remote_write.{each}" for each in (f"url={url}", "interval=1s", "labels={cluster: a}")]
        words = [word for option in options for word in ("--set", option)]
        with serving(tmp_path, "--source", "demo", "--set", "node=node-1", *words) as daemon:
            selector = '{job="pulsed",instance="node-1",cluster="a"}'
            server.wait_for(f"pulsed_gpu_real_utilization_ratio{selector}")
            server.wait_for(f"pulsed_build_info{selector}")
            server.wait_for(f"pulsed_push_up{selector}")
            server.wait_for(f"pulsed_push_samples_total{selector} > 0")
            until(lambda: names(daemon) <= {each["metric"]["__name__"] for each in server.ask('{cluster="a"}')})
            assert (
                'pulsed_push_dropped_samples_total{protocol="remote_write",reason="refused"} 0'
                in daemon.get("/metrics").text
            )
            assert daemon.stop() == 0
        until(lambda: server.ask(f"pulsed_build_info{selector}") == [])
