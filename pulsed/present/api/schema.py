"""The shape of a JSON document: its members, with the type, the meaning and the source of their values.

Answers and the schemas of `/openapi.json` are made from the same shape. Models of pydantic are created when the schema
is needed: a daemon that is only scraped never pays for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from types import GenericAlias
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from pulsed.json_text import rfc3339, rfc3339_or_none

Document = dict[str, Any]
Getter = Callable[[Any], Any]

REQUIRED = ...
"""In place of a default: every document has the member."""


class DocumentModel(BaseModel):
    """Base of the models of all shapes: documents have no undocumented members."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schema without the docstring, which `python -OO` does not have."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        schema.pop("description", None)
        return schema


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of values.

    Attributes:
        type: returns the type for the schema.
        convert: returns the value for JSON; None: it is the same.
    """

    type: Callable[[], Any]
    convert: Getter | None = None


TEXT = ValueKind(lambda: str | None, lambda text: text or None)
"""A text, or null if it is empty."""

TIME = ValueKind(lambda: str, rfc3339)
TIME_OR_NULL = ValueKind(lambda: str | None, rfc3339_or_none)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a document.

    Attributes:
        kind: of the value: a type of JSON values, a `ValueKind`, or the shape of a document.
        help: meaning of the value.
        of: where the value is: path of an attribute of the source, by default the name of the member, or a function.
            None: it is not made by `Shape.of`.
        default: in the schema, of a member that not every document has.
    """

    name: str
    kind: Any
    help: str | None = None
    of: str | Getter | None = ""
    default: Any = REQUIRED

    @property
    def get(self) -> Getter | None:
        """The function that returns the value from the source, not yet converted."""
        return attrgetter(self.of or self.name) if isinstance(self.of, str) else self.of

    def via(self, path: str) -> Member:
        """Return the member for a source that has the source of this one as an attribute."""
        if isinstance(self.of, str):
            return replace(self, of=f"{path}.{self.of or self.name}")
        if self.of is None:
            return self
        get, source = self.of, attrgetter(path)
        return replace(self, of=lambda whole: get(source(whole)))


class Shape:
    """The shape of a document.

    Args:
        name: of the schema.
        members: in the order of the document.
        first: members that the schema has before all others.
    """

    def __init__(self, name: str, *members: Member, first: Sequence[str] = ()) -> None:
        self.name, self.members, self._first = name, members, first
        rows = [(member.name, member.get, kind_of(member.kind).convert) for member in members]
        self._getters = [(name, get, convert) for name, get, convert in rows if get is not None]

    def of(self, source: object) -> Document:
        """Return the document of a source."""
        return _document(source, self._getters)

    def via(self, path: str) -> Sequence[Member]:
        """Return the members for a larger document, whose source has that of this one as an attribute."""
        return [member.via(path) for member in self.members]

    @cached_property
    def model(self) -> type[DocumentModel]:
        """The model for the schema."""
        members = {member.name: member for member in self.members}
        fields: dict[str, Any] = {
            name: (
                kind_of(member.kind).type(),
                member.default if member.help is None else Field(member.default, description=member.help),
            )
            for name, member in ({name: members[name] for name in self._first} | members).items()
        }
        return create_model(self.name, __base__=DocumentModel, **fields)


def _document(source: object, getters: Sequence[tuple[str, Getter, Getter | None]]) -> Document:
    return {name: get(source) if convert is None else convert(get(source)) for name, get, convert in getters}


def kind_of(kind: Any) -> ValueKind:
    """Return the kind of values of a type or shape."""
    if isinstance(kind, Shape):
        return ValueKind(lambda: kind.model, kind.of)
    return kind if isinstance(kind, ValueKind) else ValueKind(lambda: kind)


def optional(shape: Shape) -> ValueKind:
    """Return the kind of a document, or null without a source."""
    return ValueKind(lambda: shape.model | None, lambda source: None if source is None else shape.of(source))


def listed(shape: Shape) -> ValueKind:
    """Return the kind of a list of documents, from their sources."""
    return ValueKind(
        lambda: GenericAlias(list, (shape.model,)),
        lambda sources: [shape.of(source) for source in sources],
    )


def mapped(shape: Shape) -> ValueKind:
    """Return the kind of documents by name, from their sources by name."""
    return ValueKind(
        lambda: GenericAlias(dict, (str, shape.model)),
        lambda sources: {name: shape.of(source) for name, source in sources.items()},
    )


def shape_of(name: str, source: type) -> Shape:
    """Return the shape with a member for each field of a tuple, whose annotations have the meanings."""
    return Shape(name, *(Member(field, hint) for field, hint in get_type_hints(source, include_extras=True).items()))
