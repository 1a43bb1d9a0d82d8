"""A minimal Debian tree, made by mmdebstrap once for this checkout."""

from __future__ import annotations

import fcntl
import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.support.tools import tool

ROOT = Path(__file__).parents[2] / "build" / "tools"


def bookworm() -> Path:
    """Return Debian 12: what boots, with rpm and what pip and Ansible need, and what the image is built on."""
    packages = "systemd,dbus,python3,python3-apt,python3-venv,rpm,elfutils,ca-certificates"
    return debian_tree("bookworm", packages, lambda tree: (tree / "usr/bin/python").symlink_to("python3"))


def debian_tree(
    name: str, packages: str, finish: Callable[[Path], None] = lambda tree: None, *, suite: str = "bookworm"
) -> Path:
    """Return the tree of these packages in `build/tools`, made unless it is there; a second process waits.

    mmdebstrap has a mount namespace of its own: a run that is killed leaves no /proc and /sys mounted in the tree.
    """
    tree = ROOT / f"{name}-{zlib.crc32(f'{suite} {packages}'.encode()):08x}"
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not tree.exists():
            remove_stale(name)
            new = tree.with_name(f"{tree.name}.{os.getpid()}")
            _run(
                *("unshare", "--mount", "--propagation", "private", "--fork", "--kill-child"),
                *(tool("mmdebstrap", "mmdebstrap"), "--quiet", "--variant=minbase", f"--include={packages}"),
                *(suite, new),
            )
            finish(new)
            new.rename(tree)
    return tree


def remove_stale(name: str) -> None:
    """Remove what runs that were killed have left of a tree; nothing of a file system that is mounted in it."""
    for path in ROOT.glob(f"{name}-*.*"):
        if not Path("/proc", path.suffix[1:], "cwd").is_symlink():
            _run("rm", "-rf", "--one-file-system", path)


def _run(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
