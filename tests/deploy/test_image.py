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

from tests.daemon import free_port
from tests.debian_tree import debian_tree
from tests.tools import tool
from tests.waiting import SECONDS, until

ROOT = Path(__file__).parents[2]
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
BUILDAH = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
BASE, IMAGE = "localhost/pulsed-test-base", "localhost/pulsed-test"
MOST_MEGABYTES = 50
USER = 65532

RUN = """
mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"
mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/tmp"
exec chroot --userspec={user}:{user} "$0" /usr/bin/env -i {environment} {command}
"""


def run(*words: str | Path, **extra: str) -> str:
    done = subprocess.run(
        words, env=os.environ | BUILDAH | extra, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT
    )
    assert done.returncode == 0, f"{shlex.join(map(str, words))}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


def megabytes(folder: str) -> float:
    return int(run("du", "-sxb", folder).split()[0]) / 1e6


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A container of the built image, by name."""
    if os.geteuid():
        pytest.skip("mounting an image needs root")
    buildah = tool("buildah", "buildah")
    tree = debian_tree("python-tree", PACKAGES, lambda tree: (tree / "usr/bin/python").symlink_to("python3"))
    made = [run(buildah, "from", "scratch")]
    run(buildah, "add", "--quiet", made[0], tree, "/")
    run(buildah, "commit", "--quiet", made[0], BASE)
    # The machine's certificates and pip configuration, as it reaches the registries.
    folders = {
        "/etc/ssl/certs",
        "/etc/pip.conf",
        *re.findall(r"/opt/[\w.-]+", run("python3", "-m", "pip", "config", "list")),
    }
    volumes = [f"--volume={path}:{path}:ro" for path in sorted(folders) if Path(path).exists()]
    dockerfile = ROOT / "deploy" / "container" / "Dockerfile"
    run(
        *(
            buildah,
            "build",
            "--quiet",
            "--format=docker",
            f"--build-arg=PYTHON_IMAGE={BASE}",
            "--target=runtime",
            *volumes,
        ),
        *("--tag", IMAGE, "--file", dockerfile, ROOT),
    )
    made.append(run(buildah, "from", IMAGE))
    yield made[1]
    run(buildah, "rm", *made)
    run(buildah, "rmi", IMAGE, BASE)


@pytest.fixture(scope="module")
def root(container: str) -> str:
    return run("buildah", "mount", container)


@pytest.mark.long
def test_the_image_is_small(root: str) -> None:
    assert megabytes(f"{root}/opt/pulsed") <= MOST_MEGABYTES


@pytest.mark.long
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
