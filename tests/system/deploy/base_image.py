"""A base image for the Dockerfile, made by mmdebstrap: test machines may not reach a registry of images."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.debian_tree import bookworm
from tests.support.tools import missing, tool

ROOT = Path(__file__).resolve().parents[3]


def storage_driver() -> str:
    """Return `overlay`, which copies no layers, or `vfs` where buildah's folder is on an overlay, as in a container."""
    words = ("stat", "--file-system", "--format=%T", "/var/lib")
    kind = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return "vfs" if kind == "overlayfs" else "overlay"


BUILDAH = {"STORAGE_DRIVER": storage_driver(), "BUILDAH_ISOLATION": "chroot"}


def run(*words: str | Path) -> str:
    """Run a command with buildah's settings; return its output."""
    done = subprocess.run(
        words, env=os.environ | BUILDAH, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT
    )
    assert done.returncode == 0, f"{shlex.join(map(str, words))}: {done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


@contextlib.contextmanager
def base_image(name: str) -> Iterator[list[str]]:
    """Make a base image; gives the options of `buildah build` for it and for the machine's registries.

    buildah keeps the images of the whole machine in one place: the process id keeps two runs of this test apart.
    """
    name = f"{name}-{os.getpid()}"
    if os.geteuid():
        missing("mounting an image needs root")
    buildah = tool("buildah", "buildah")
    container = run(buildah, "from", "scratch")
    run(buildah, "add", "--quiet", container, bookworm(), "/")
    run(buildah, "commit", "--quiet", "--rm", container, name)
    # The machine's certificates and pip configuration, as it reaches the registries.
    folders = {
        "/etc/ssl/certs",
        "/etc/pip.conf",
        *re.findall(r"/opt/[\w.-]+", run("python3", "-m", "pip", "config", "list")),
    }
    volumes = [f"--volume={path}:{path}:ro" for path in sorted(folders) if Path(path).exists()]
    yield [f"--build-arg=PYTHON_IMAGE={name}", *volumes]
    run(buildah, "rmi", name)
