"""Runs the Ansible role in a booted tree."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.support.debian_tree import bookworm
from tests.system.deploy.tools import fetched
from tests.system.systemd.boot import ROOT, boot

INSIDE = Path(__file__).with_name("inside_ansible.py")


def follow_the_role(check: Path, package: Path, newer: Path, folder: Path) -> None:
    """Install, configure, upgrade and remove a package or wheel by the role.

    Args:
        check: the folder that is `/check` in the tree; written here.
        newer: a later version.
        folder: for the tree.
    """
    for name in ("systemd", "deploy"):
        shutil.copytree(ROOT / name, check / name)
    for name, file in (("dist", package), ("new", newer)):
        (check / name).mkdir()
        shutil.copy(file, check / name)
    (check / "ansible").symlink_to(fetched("ansible"))
    rows = boot(bookworm(), check, INSIDE, folder)
    failed = [row for row in rows if not row["ok"]]
    assert not failed, failed
    assert [row["step"] for row in rows] == _steps("STEPS_OF_DEB" if package.suffix == ".deb" else "STEPS")


def _steps(name: str) -> list[str]:
    (found,) = re.findall(rf"^{name} = \((.*?)\)$", INSIDE.read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"\w+", found)
