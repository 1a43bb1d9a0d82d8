"""Fails if a pinned package has a known hole: `python -m tools.audit`, by pip-audit and PyPI's advisories.

Where the advisories cannot be read, packages are not audited: this is printed, and is no failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FILES = tuple(ROOT / "deploy" / f"{name}.txt" for name in ("constraints", "build-constraints", "dev-constraints"))
SECONDS = 300

Audit = dict[str, Any]


class Outcome(NamedTuple):
    """What came of an audit: lines about holes, and about packages that were not audited."""

    holes: Sequence[str]
    skipped: Sequence[str]


def pip_audit(file: Path) -> Audit | str:
    """Return pip-audit's report on a file of pinned packages, or why there is none."""
    words = ["--disable-pip", "--require-hashes", "--progress-spinner=off", "--format=json", "--requirement", str(file)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", *words], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"pip-audit did not end within {SECONDS} s"
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return (done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1]
    return report if isinstance(report, dict) else "pip-audit printed something else than a report"


def outcome(report: Audit) -> Outcome:
    """Return what a report of pip-audit says."""
    return Outcome(list(_holes(report)), list(_skipped(report)))


def _holes(report: Audit) -> Iterator[str]:
    for package in report["dependencies"]:
        for hole in package.get("vulns", ()):
            names = ", ".join([hole["id"], *hole.get("aliases", ())])
            fixed = ", ".join(hole.get("fix_versions", ())) or "none yet"
            yield f"{package['name']} {package['version']}: {names}; fixed in: {fixed}"


def _skipped(report: Audit) -> Iterator[str]:
    for package in report["dependencies"]:
        if "skip_reason" in package:
            yield f"{package['name']}: {package['skip_reason']}"


def main() -> int:
    """Audit all files; return the exit code."""
    has_holes = False
    for file in FILES:
        name = file.relative_to(ROOT)
        report = pip_audit(file)
        if isinstance(report, str):
            print(f"{name}: NOT AUDITED: {report}")
            continue
        holes, skipped = outcome(report)
        audited = len(report["dependencies"]) - len(skipped)
        print(f"{name}: {audited} packages audited, {len(holes)} known holes")
        if skipped:
            print(f"{name}: NOT AUDITED: {len(skipped)} packages, the first: {skipped[0]}")
        for line in holes:
            has_holes = True
            print(f"{name}: HOLE: {line}")
    if has_holes:
        print("`make constraints` pins the newest versions", file=sys.stderr)
    return int(has_holes)


if __name__ == "__main__":
    sys.exit(main())
