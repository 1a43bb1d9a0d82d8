"""Writes the documents of a package: what operators read, with links that work where they are installed."""

from __future__ import annotations

import datetime
import gzip
import os
import re
import shutil
import textwrap
from collections.abc import Iterator
from email.utils import format_datetime
from pathlib import Path

from tools.references import MAINTAINER, REPOSITORY

ROOT = Path(__file__).resolve().parents[1]

DOCUMENTS = ("*.md", "docs/*.md", "deploy/*/README.md", "systemd/README.md", "helm/pulsed/README.md")

FOLDERS = ("docs", "deploy", "systemd", "helm")
"""Linked files in these are documents, too; others are in the repository alone."""

_LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?=[)#])")
_SECTION = re.compile(r"^## (?P<version>\S+) / (?P<date>\S+)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def write_documents(target: Path, version: str) -> None:
    """Write all documents, and the files that they link, into a folder with the tree of the repository.

    Links to what is not there, such as tests, lead to the repository at the tag of the version.
    """
    pages = {path.relative_to(ROOT) for pattern in DOCUMENTS for path in ROOT.glob(pattern)}
    linked: set[Path] = set()
    for page in pages:

        def installed(link: re.Match[str], page: Path = page) -> str:
            path = Path(os.path.normpath(page.parent / link["target"]))
            if path in pages or (path.parts[0] in FOLDERS and (ROOT / path).exists()):
                linked.add(path)
                return link["target"]
            return f"{REPOSITORY}/blob/v{version}/{path}"

        text = _LINK.sub(installed, (ROOT / page).read_text(encoding="utf-8"))
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        (target / page).write_text(text, encoding="utf-8")
    for path in sorted(linked - pages):
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, target / path, dirs_exist_ok=True)
        else:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, target / path)


def write_debian_changelog(file: Path, package_version: str, epoch: int) -> None:
    """Write CHANGELOG.md as the changelog of a deb; an unreleased section has the version and time of the package."""
    built = datetime.datetime.fromtimestamp(epoch, datetime.UTC)
    entries = _debian_entries((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), package_version, built)
    file.write_bytes(gzip.compress("\n".join(entries).encode(), mtime=0))


def _debian_entries(changelog: str, package_version: str, built: datetime.datetime) -> Iterator[str]:
    for section in _SECTION.finditer(changelog):
        is_released = section["date"] != "unreleased"
        version = section["version"] if is_released else package_version
        time = datetime.datetime.fromisoformat(section["date"]).replace(tzinfo=datetime.UTC) if is_released else built
        items = [" ".join(item.split()) for item in re.split(r"^\* ", section["text"], flags=re.MULTILINE)[1:]]
        lines = [textwrap.fill(item, 78, initial_indent="  * ", subsequent_indent="    ") for item in items]
        yield "\n".join(
            [
                f"pulsed ({version}) unstable; urgency=medium\n",
                *(lines or ["  * New version."]),
                f"\n -- {MAINTAINER}  {format_datetime(time)}\n",
            ]
        )
