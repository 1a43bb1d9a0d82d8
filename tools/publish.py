"""Signs the files of a release, and publishes its images: `python3 -m tools.publish`.

Needs Python and Debian packages only: no package of PyPI runs where the key and the tokens are. `SHA256SUMS` is signed
with the minisign key in the variable `MINISIGN_KEY` (the content of the secret key's file), whose password is in
`MINISIGN_PASSWORD`. Its public key is `minisign.pub` in the repository. Without a key the release is not signed, and
its notes state that.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.references import IMAGE

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
CHANGELOG = ROOT / "CHANGELOG.md"
PUBLIC_KEY = ROOT / "minisign.pub"

SECTION = re.compile(r"^## (?P<version>\S+) / (?P<date>\S+)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ARCHIVE = re.compile(r"pulsed-image-(?P<tag>.+)-linux-\w+\.tar")


class ReleaseRefused(Exception):
    """The release cannot be made; the message has the reason and the remedy."""


def run(*words: str | Path, **environment: str) -> str:
    """Run a command in the repository and return its output.

    Raises:
        ReleaseRefused: it failed.
    """
    done = subprocess.run(words, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseRefused(f"{' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout.strip()


def current_version() -> str:
    """Return the version that the working tree has."""
    match = re.search(r'^__version__ = "(.+)"$', (ROOT / "pulsed" / "__init__.py").read_text(), re.MULTILINE)
    assert match
    return match[1]


def _notes(version: str) -> str:
    for section in SECTION.finditer(CHANGELOG.read_text(encoding="utf-8")):
        if section["version"] == version:
            return section["text"].strip() + "\n"
    raise ReleaseRefused(f"CHANGELOG.md has no section for {version}")


def finish(version: str) -> None:
    """Write the notes of a release, and sign its sums if there is a key.

    Raises:
        ReleaseRefused: it cannot be signed.
    """
    is_signed = bool(os.environ.get("MINISIGN_KEY"))
    notes = _notes(version) + ("" if is_signed else "\nThe files of this release are not signed.\n")
    (DIST / "release-notes.md").write_text(notes, encoding="utf-8")
    if is_signed:
        sign(DIST / "SHA256SUMS", f"pulsed {version}")


def sign(file: Path, comment: str) -> None:
    """Sign a file with the key in `MINISIGN_KEY`, beside it as `.minisig`; the comment is signed, too.

    Raises:
        ReleaseRefused: minisign is not installed, the key cannot be used, or it is not that of `PUBLIC_KEY`.
    """
    minisign = shutil.which("minisign")
    if minisign is None:
        raise ReleaseRefused("MINISIGN_KEY is set, but minisign is not installed: apt-get install minisign")
    if not PUBLIC_KEY.exists():
        raise ReleaseRefused(
            f"MINISIGN_KEY is set; commit its public key as {PUBLIC_KEY.name}, to verify signatures with"
        )
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.touch(mode=0o600)
        key.write_text(os.environ["MINISIGN_KEY"].strip() + "\n")
        done = subprocess.run(
            [minisign, "-S", "-s", key, "-m", file, "-t", comment],
            input=os.environ.get("MINISIGN_PASSWORD", "") + "\n",
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise ReleaseRefused(
            f"minisign cannot sign with the key in MINISIGN_KEY: {(done.stderr or done.stdout).strip()}"
        )
    try:
        run(minisign, "-V", "-q", "-m", file, "-p", PUBLIC_KEY)
    except ReleaseRefused as error:
        raise ReleaseRefused(f"the key in MINISIGN_KEY is not that of {PUBLIC_KEY.name}: {error}") from None


def push_images() -> None:
    """Push the images in `dist/`, those of one tag as one manifest.

    Raises:
        ReleaseRefused: the registry is an example, or does not take them.
    """
    if IMAGE.startswith("registry.example/"):
        raise ReleaseRefused("tools/references.py: IMAGE is an example; set your registry and run `make docs`")
    tags: dict[str, list[Path]] = {}
    for archive in sorted(DIST.iterdir()):
        if match := _ARCHIVE.fullmatch(archive.name):
            tags.setdefault(match["tag"], []).append(archive)
    for tag, archives in tags.items():
        name = f"{IMAGE}:{tag}"
        run("buildah", "manifest", "create", name)
        for archive in archives:
            run("buildah", "manifest", "add", name, f"docker-archive:{archive}")
        run("buildah", "manifest", "push", "--all", "--format", "v2s2", name, f"docker://{name}")


def main() -> int:
    """Check, sign and push the files in `dist/`; return the exit code."""
    try:
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=DIST, check=True)
        finish(current_version())
        push_images()
    except (ReleaseRefused, subprocess.CalledProcessError) as error:
        print(f"publish: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
