"""Build the mixin: its program, the rules as JSON, and the dashboards, in one folder.

Run as `python -m tools.build_mixin FOLDER`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import tarfile
import tempfile
from pathlib import Path

import yaml

from pulsed.compute.settings import ComputeSettings
from pulsed.present.promql.rule_set import RuleSelection, document
from tools.generate_dashboards import DASHBOARDS, FOLDER, ROOT

RULES = {
    "rules.json": RuleSelection("recording"),
    "alerts.json": RuleSelection("alerting"),
}


def build(folder: Path) -> None:
    """Write the mixin into a folder, which is made if it is missing."""
    (folder / "dashboards").mkdir(parents=True, exist_ok=True)
    for name in ("mixin.libsonnet", "README.md"):
        shutil.copy(ROOT / "deploy" / "mixin" / name, folder)
    for name in DASHBOARDS:
        shutil.copy(FOLDER / name, folder / "dashboards")
    for name, selection in RULES.items():
        rules = yaml.safe_load(document(ComputeSettings(), selection))
        (folder / name).write_text(json.dumps(rules, indent=2) + "\n", encoding="utf-8")


def archive(target: Path, epoch: int) -> None:
    """Write the mixin as a .tar.gz whose files have one time, so that equal sources give equal bytes.

    Args:
        epoch: the time, in Unix seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        with (
            target.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as tar,
        ):
            for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
                member = tarfile.TarInfo(f"pulsed-mixin/{path.relative_to(folder)}")
                member.size, member.mtime, member.mode = path.stat().st_size, epoch, 0o644
                with path.open("rb") as content:
                    tar.addfile(member, content)


def main() -> None:
    """Build the mixin into the folder of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    build(parser.parse_args().folder)


if __name__ == "__main__":
    main()
