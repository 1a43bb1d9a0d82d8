"""`pulsed install-files` and `pulsed counters`: files for operators. Imports neither configuration nor server."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from pulsed.cli.command_reference import COMPLETIONS, commands, man_pages
from pulsed.errors import PulsedError
from pulsed.present.counters_file import counters_file

PACKAGED = Path(__file__).parents[1] / "files"
"""In a wheel: the folders that pyproject.toml includes."""

CHECKOUT = Path(__file__).parents[2]
SOURCES = ("config.example.yaml", "systemd", "deploy/constraints.txt", "deploy/dcgm-exporter", "deploy/grafana",
           "deploy/health", "deploy/prometheus", "deploy/slurm", "docs")  # fmt: skip
"""The same in a checkout, where the package is installed as editable."""


class FilesNotWritten(PulsedError):
    """The files cannot be written."""


def run(options: argparse.Namespace) -> int:
    """Write the files and print what each folder has; return the exit code. Raises `FilesNotWritten`."""
    target = Path(options.directory)
    try:
        for source in _sources():
            if source.is_dir():
                shutil.copytree(source, target / source.name, dirs_exist_ok=True, copy_function=shutil.copyfile)
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target / source.name)
        for script in target.glob("*/*.sh"):
            script.chmod(0o755)
        for name, text in _generated(options):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FilesNotWritten(
            f"cannot write {error.filename or target}: {error.strerror or error}", "name another folder"
        ) from None
    for entry in sorted(target.iterdir()):
        sys.stdout.write(f"{entry}\n")
    return 0


def _sources() -> list[Path]:
    if PACKAGED.is_dir():
        return sorted(PACKAGED.iterdir())
    return [CHECKOUT / source for source in SOURCES]


def _generated(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    listed = commands(options.parser_of_all())
    for name, text in man_pages(listed):
        yield f"man/{name}", text
    for name, render in COMPLETIONS.items():
        yield f"completions/{name}", render(listed)


def run_counters(options: argparse.Namespace) -> int:
    """Print the counters file for a version of dcgm-exporter and a model; return the exit code."""
    sys.stdout.write(counters_file(options.exporter_version, options.model))
    return 0
