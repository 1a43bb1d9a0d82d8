"""The registry of the kinds of sources."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import pulsed.reader
from pulsed.reader.settings import CANDIDATES, SECTIONS, SourceSettings


def test_kinds_are_the_sections_and_auto() -> None:
    assert get_args(get_type_hints(SourceSettings)["kind"]) == ("auto", *SECTIONS)
    assert CANDIDATES == ("dcgmi", "exporter", "nvml")


def test_every_folder_with_a_source_is_registered() -> None:
    assert pulsed.reader.__file__ is not None
    folders = {path.parent.name for path in Path(pulsed.reader.__file__).parent.glob("*/source.py")}
    assert folders == set(SECTIONS)


@pytest.mark.parametrize("kind", SECTIONS)
def test_open_sources_takes_the_section_of_its_folder(kind: str) -> None:
    module = import_module(f"pulsed.reader.{kind}.source")
    hints = get_type_hints(module.open_sources)
    assert hints["settings"] is type(SECTIONS[kind])
    (source,) = get_args(hints["return"])
    assert source.kind == kind
