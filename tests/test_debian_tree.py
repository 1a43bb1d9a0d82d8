"""A tree is made once; a killed run leaves no mounts, and no tree that the next run would not remove."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import debian_tree
from tests.support.waiting import SECONDS, until

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts need root and Linux")

MMDEBSTRAP = """#!/bin/sh
for tree; do :; done
mkdir -p "$tree/proc"
mount -t proc proc "$tree/proc"
touch "$tree/half"
exec sleep 600
"""

RUN = """
import sys
from pathlib import Path
from tests.support import debian_tree
debian_tree.ROOT = Path(sys.argv[1])
debian_tree.debian_tree("tree", "a")
"""


def test_a_killed_run_leaves_no_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, root = tmp_path / "tools", tmp_path / "root"
    tools.mkdir()
    (tools / "mmdebstrap").write_text(MMDEBSTRAP)
    (tools / "mmdebstrap").chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    run = subprocess.Popen([sys.executable, "-c", RUN, root], env=environment, start_new_session=True)
    try:
        until(lambda: any(root.glob(f"tree-*.{run.pid}/half")))
        (half,) = root.glob(f"tree-*.{run.pid}")
        assert str(root) not in Path("/proc/self/mounts").read_text()
        monkeypatch.setattr(debian_tree, "ROOT", root)
        debian_tree.remove_stale("tree")
        assert half.exists()  # its run is alive
    finally:
        os.killpg(run.pid, 9)
        run.wait()
    debian_tree.remove_stale("tree")
    assert not half.exists()


def test_two_runs_at_once_make_one_tree(tmp_path: Path) -> None:
    (tmp_path / "mmdebstrap").write_text(
        '#!/bin/sh\nfor tree; do :; done\nmkdir "$tree"; sleep 0.5; echo "$tree" >>"$0.made"\n'
    )
    (tmp_path / "mmdebstrap").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", RUN, str(tmp_path / "root")]
    runs = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [run.wait(SECONDS) for run in runs] == [0, 0]
    assert len((tmp_path / "mmdebstrap.made").read_text().splitlines()) == 1
    assert len(list((tmp_path / "root").glob("tree-*"))) == 1
