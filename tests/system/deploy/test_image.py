"""The image of deploy/container/Dockerfile is built, by buildah on a base made by mmdebstrap, and runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import free_port
from tests.support.waiting import SECONDS, until
from tests.system.deploy.base_image import ROOT, base_image, run

BASE, IMAGE = "localhost/pulsed-test-base", f"localhost/pulsed-test-{os.getpid()}"
MAX_MEGABYTES = 90
"""With the extras kubernetes, nvml and otlp: grpcio and OpenTelemetry's SDK are a third of it."""
USER = 65532

RUN = """
mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"
mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/tmp"
exec chroot --userspec={user}:{user} "$0" /usr/bin/env -i {environment} {command}
"""


def megabytes(folder: str) -> float:
    return int(run("du", "-sxb", folder).split()[0]) / 1e6


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A container of the built image, by name."""
    with base_image(BASE) as options:
        words = ("--quiet", "--format=docker", "--target=runtime", *options, "--tag", IMAGE)
        run("buildah", "build", *words, "--file", ROOT / "deploy" / "container" / "Dockerfile", ROOT)
        made = run("buildah", "from", IMAGE)
        yield made
        run("buildah", "rm", made)
        run("buildah", "rmi", IMAGE)


@pytest.fixture(scope="module")
def root(container: str) -> str:
    return run("buildah", "mount", container)


@pytest.mark.slow
def test_the_image_is_small(root: str) -> None:
    assert megabytes(f"{root}/opt/pulsed") <= MAX_MEGABYTES


@pytest.mark.slow
def test_it_serves_without_privileges_on_a_read_only_root(root: str) -> None:
    config = json.loads(run("buildah", "inspect", "--type", "image", IMAGE))["Docker"]["config"]
    assert config["User"] == f"{USER}:{USER}"
    port = free_port()
    words = [*config["Entrypoint"], *config["Cmd"], "--source", "demo", "--set", f"listen=127.0.0.1:{port}"]
    script = RUN.format(user=USER, environment=shlex.join(config["Env"]), command=shlex.join(words))
    daemon = subprocess.Popen(["unshare", "--mount", "sh", "-euc", script, root])
    try:

        def page(path: str) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return str(answer.read())

        def serves() -> bool:
            try:
                return "pulsed_gpu_real_utilization_ratio{" in page("/metrics")
            except urllib.error.URLError:
                assert daemon.poll() is None
                return False

        until(serves)
        (uid,) = re.findall(r"^Uid:\s+(\d+)", Path(f"/proc/{daemon.pid}/status").read_text(), re.MULTILINE)
        assert int(uid) == USER
        health = config["Healthcheck"]["Test"]
        assert health[0] == "CMD"
        check = [word.replace(":9401/", f":{port}/") for word in health[1:]]
        path = dict(pair.split("=", 1) for pair in config["Env"])["PATH"]
        done = subprocess.run(
            ["chroot", f"--userspec={USER}:{USER}", root, "/usr/bin/env", f"PATH={path}", *check], check=False
        )
        assert done.returncode == 0
    finally:
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(SECONDS) == 0
