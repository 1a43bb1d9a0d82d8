"""What the JSON documents have in common: a base of their models, and types of their values.

A model is made of an object that has the members as attributes, or of a mapping. It makes the document, and the schema
of `/openapi.json`.
"""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from pulsed.json_text import rfc3339, rfc3339_or_none

Document = dict[str, Any]


class DocumentModel(BaseModel):
    """Base of all models: documents have no undocumented members."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    @classmethod
    def render(cls, source: object) -> Document:
        """Return the document of a source, which has the members as attributes or keys."""
        return cls.model_validate(source).model_dump(by_alias=True)


def shape_of(name: str, row: type[tuple[Any, ...]], **descriptions: str) -> Any:
    """Return the model of a `NamedTuple`, by the name of its schema, with descriptions of some members."""
    members: Any = {
        member: (hint, Field(description=descriptions.get(member))) for member, hint in get_type_hints(row).items()
    }
    return create_model(name, __base__=DocumentModel, **members)


def at(path: str, description: str | None = None) -> Any:
    """Return a field whose value is at a path of attributes, such as `device.entity.uuid`."""
    return Field(validation_alias=AliasPath(*path.split(".")), description=description)


Text = Annotated[str | None, BeforeValidator(lambda text: text or None)]
"""A text, or null if it is empty."""

Time = Annotated[str, BeforeValidator(rfc3339)]
"""A time as text, of Unix seconds."""

TimeOrNull = Annotated[str | None, BeforeValidator(rfc3339_or_none)]

Numbers = Annotated[
    dict[str, Any],
    WithJsonSchema({"additionalProperties": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "type": "object"}),
]
"""Numbers by name, as they are: integers stay integers."""
