"""Fetches vendored files from the npm registry at the pinned version: `python -m tools.vendor`, or `make vendor`.

`vendor.yaml` names packages, versions, the hash of each archive, and the files that are taken out of it with theirs.
"""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "pulsed" / "present" / "web" / "assets" / "vendor"
PINS = FOLDER / "vendor.yaml"


def pins() -> dict[str, Any]:
    """Return the packages of `vendor.yaml` by name."""
    found: dict[str, Any] = yaml.safe_load(PINS.read_text())
    return found


def sha512(data: bytes) -> str:
    """Return the hash in hexadecimal."""
    return hashlib.sha512(data).hexdigest()


def fetch(name: str, pin: dict[str, Any]) -> None:
    """Fetch one package, check its archive, and write its files."""
    with tempfile.TemporaryDirectory() as scratch:
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{name}@{pin['version']}"],
            cwd=scratch,
            check=True,
            capture_output=True,
            text=True,
        )
        archive = Path(scratch, packed.stdout.split()[-1])
        found = sha512(archive.read_bytes())
        if found != pin["sha512"]:
            raise SystemExit(f"{name} {pin['version']}: sha512 of the archive is {found}, pinned is {pin['sha512']}")
        target = FOLDER / f"{name}-{pin['version']}"
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as tar:
            for inner, expected in pin["files"].items():
                member = tar.extractfile(f"package/{inner}")
                if member is None:
                    raise SystemExit(f"{name} {pin['version']}: no file {inner}")
                data = member.read()
                if sha512(data) != expected:
                    raise SystemExit(f"{name} {pin['version']}: sha512 of {inner} is {sha512(data)}")
                (target / Path(inner).name).write_bytes(data)
    print(f"{target.relative_to(ROOT)}: {', '.join(pin['files'])}")


if __name__ == "__main__":
    for package, pinned in pins().items():
        fetch(package, pinned)
