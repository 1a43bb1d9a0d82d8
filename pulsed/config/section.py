"""Sections of the configuration, and iteration over their keys. Independent of the keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

Problem = tuple[str, str]
"""A key of a section that breaks a rule among several keys, and words that go on from its name."""


class Section(BaseModel):
    """A section of the configuration: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong between the keys of this section, each of which is right by itself."""
        yield from ()

    @model_validator(mode="after")
    def _check(self) -> Section:
        if found := list(self.problems()):
            text = "; ".join(f"{key} {message}" for key, message in found)
            raise PydanticCustomError("rules", "{text}", {"text": text, "problems": found})
        return self


def section_of(field: FieldInfo) -> type[Section] | None:
    """Return the section that a field holds, also inside `| None`; None for a key with a value."""
    for part in (field.annotation, *get_args(field.annotation)):
        if isinstance(part, type) and issubclass(part, Section):
            return part
    return None


def keys(section: type[Section], prefix: str = "") -> dict[str, FieldInfo]:
    """Return every key with its dots (`source.exporter.targets`), sections before what is in them."""
    found: dict[str, FieldInfo] = {}
    for attribute, field in section.model_fields.items():
        name = field.alias or attribute
        found[prefix + name] = field
        if inner := section_of(field):
            found |= keys(inner, f"{prefix}{name}.")
    return found
