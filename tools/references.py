"""Writes the version and the names of image and repository into every file that has them.

Run as `python -m tools.references`. The version is that of `pulsed/__init__.py`; the names are the constants below,
placeholders for those of whoever publishes pulsed.
"""

from __future__ import annotations

import re
from pathlib import Path

from pulsed import __version__

IMAGE = "registry.example/pulsed"
"""Registry and repository of the image: the only place to change it. Then run `make docs`."""

REPOSITORY = "https://github.com/pulsed/pulsed"
"""Where the sources and documents are, docs/health.md among them, to which dashboards link; as `IMAGE`."""

RUNBOOK = f"{REPOSITORY}/blob/main/docs/health.md"

MAINTAINER = "pulsed <pulsed@localhost>"
"""Of the deb."""

ROOT = Path(__file__).resolve().parents[1]

REFERENCES = (
    ("helm/pulsed/Chart.yaml", r"^version: .*", "version: {version}"),
    ("helm/pulsed/Chart.yaml", r"^appVersion: .*", 'appVersion: "{version}"'),
    ("helm/pulsed/Chart.yaml", r"^home: .*", "home: {repository}"),
    ("helm/pulsed/Chart.yaml", r"^sources: .*", "sources: [{repository}]"),
    ("helm/pulsed/Chart.yaml", r"^icon: .*", "icon: {repository}/raw/main/pulsed/present/web/assets/favicon.svg"),
    ("helm/pulsed/Chart.yaml", r"^    url: .*", "    url: {repository}"),
    ("helm/pulsed/Chart.yaml", r"^      url: .*(?=/blob/)", "      url: {repository}"),
    ("helm/pulsed/Chart.yaml", r"^      url: .*(?=/issues)", "      url: {repository}"),
    ("helm/pulsed/values.yaml", r"^  repository: .*", "  repository: {image}"),
    ("deploy/container/Dockerfile", r"^ARG VERSION=.*", "ARG VERSION={version}"),
    ("pyproject.toml", r"^Homepage = .*", 'Homepage = "{repository}"'),
    ("pyproject.toml", r"^Documentation = .*", 'Documentation = "{repository}/blob/main/README.md"'),
    ("pyproject.toml", r"^Changelog = .*", 'Changelog = "{repository}/blob/main/CHANGELOG.md"'),
    ("pyproject.toml", r"^Issues = .*", 'Issues = "{repository}/issues"'),
    ("deploy/container/Dockerfile", r'image.source="[^"]*"', 'image.source="{repository}"'),
    ("deploy/container/Dockerfile", r'image.url="[^"]*"', 'image.url="{repository}"'),
    ("deploy/container/compose.yaml", r"^  image: .*", "  image: {image}:{version}"),
)
"""File, what to replace in it, and the replacement."""


def with_references(path: str, text: str) -> str:
    """Return the text of a file with the current version and image.

    Raises:
        ValueError: the file has no place for one of its references.
    """
    for file, pattern, replacement in REFERENCES:
        if file == path:
            text, count = re.subn(
                pattern,
                replacement.format(version=__version__, image=IMAGE, repository=REPOSITORY),
                text,
                flags=re.MULTILINE,
            )
            if not count:
                raise ValueError(f"{path}: nothing matches {pattern!r}, where the version or the image belongs")
    return text


def main() -> None:
    """Write the references into all files."""
    for path in dict.fromkeys(file for file, _, _ in REFERENCES):
        file = ROOT / path
        file.write_text(with_references(path, file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
