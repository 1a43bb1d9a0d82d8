"""Settings: sections of the configuration, and kinds of values.

Each layer declares its settings as dataclasses; pydantic validates them, with the kinds of `values.py` as validators.
Must not import any layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, Final, Literal, TypeVar, cast, get_args, get_type_hints

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core import core_schema as schemas

Problem = tuple[str, str]
"""A problem beyond a single value: a key of a section, such as `interval`, `exporter.timeout` or `targets[0]`, and
words that continue the sentence after its name."""

Style = Literal["typed", "text", "file"]
"""How a scalar without quotes is taken: by YAML's types; as it is written (`node: 007`); so too, as a file's name."""

NOT_ALLOWED: Final = "is not allowed"

_T = TypeVar("_T")
_META: Final = "setting"


@dataclass(frozen=True, slots=True)
class Settings:
    """Base of the dataclasses whose fields, as far as `setting` declares them, are keys of the configuration."""

    def problems(self) -> Iterator[Problem]:
        """Yield contradictions between keys of this section that are valid by themselves."""
        yield from ()

    def unusable(self) -> Iterator[Problem]:
        """Yield the files and folders of this section that do not exist here, or that this user may not use."""
        yield from ()

    def without_effect(self) -> Iterator[Problem]:
        """Yield keys that have no effect together with the others; they are reported if they are given.

        By default, these are all others of a section whose key `enabled` is off.
        """
        if not getattr(self, "enabled", True):
            yield from without(self, "enabled")


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a kind are written and checked: the annotation of a field, which pydantic validates by it.

    Attributes:
        name: the placeholder of the documentation, without its angle brackets.
        allowed: the allowed values, for an error message.
        parse: returns the value of a scalar; raises ValueError with a text that continues it: "is not a size".
            With the styles `text` and `file` it gets texts only.
        style: how a plain scalar is taken. Relative names of files count from the folder of the configuration file.
        secret: never shown: not in errors, not in `/config`.
        secret_file: the name of a file that holds a secret.
        text_entries: keys with texts, of a value that may also be written as a mapping.
    """

    name: str
    allowed: str
    parse: Callable[[Any], object]
    style: Style = "typed"
    secret: bool = False
    secret_file: bool = False
    text_entries: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the validator of values."""
        return self.item_schema()

    def item_schema(self) -> CoreSchema:
        """Return the validator of one value."""
        return schemas.no_info_plain_validator_function(self._parsed)

    def _parsed(self, value: object) -> object:
        if self.style != "typed" and not is_text(value) and not (self.text_entries and isinstance(value, dict)):
            raise ValueError(NOT_ALLOWED)
        return self.parse(value)


class Entry(ABC):
    """A parsed value of a kind that may be written as a text or as a mapping."""

    @property
    @abstractmethod
    def written(self) -> object:
        """The value as the configuration has it: a text or a mapping."""


@dataclass(frozen=True, slots=True)
class ListKind(Kind):
    """How a tuple is written, whose items are of the kind.

    Attributes:
        single: one value without brackets is a list of one.
        words: a text is split at commas and blanks.
        least: number of items.
        check: returns the whole tuple; raises ValueError as `parse`.
    """

    single: bool = True
    words: bool = False
    least: int = 0
    check: Callable[[tuple[Any, ...]], tuple[Any, ...]] = lambda items: items

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the validator of lists."""
        items = schemas.tuple_variable_schema(self.item_schema())
        whole = schemas.no_info_after_validator_function(self._checked, items)
        return schemas.no_info_before_validator_function(self._listed, whole)

    def _listed(self, value: object) -> object:
        if isinstance(value, list):
            return value
        if self.words and isinstance(value, str):
            return value.replace(",", " ").split()
        if not self.single:
            raise ValueError(NOT_ALLOWED)
        return [value]

    def _checked(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(items) < self.least:
            raise ValueError(NOT_ALLOWED)
        return self.check(items)


@dataclass(frozen=True, slots=True)
class TableKind(Kind):
    """How a mapping of free names to values of the kind is written.

    Attributes:
        parse_name: returns a name; raises ValueError as `parse`.
        depth: 2: a mapping of such mappings.
    """

    parse_name: Callable[[str], object] = str
    depth: int = 1

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the validator of mappings."""
        table = self.item_schema()
        for _ in range(self.depth):
            table = schemas.dict_schema(schemas.no_info_plain_validator_function(self.parse_name), table)
        return table


def setting(
    default: _T,
    description: str | Callable[[str], str] = "",
    *,
    example: object = None,
    key: str = "",
    hidden: bool = False,
) -> _T:
    """Declare a field as a key of the configuration.

    Args:
        description: or a function that returns it for the name of the field.
        example: for the documentation, where the default does not show how a value is written.
        key: its name, if it differs from the name of the field.
        hidden: left out of `repr`, because it is a secret or may hold one.
    """
    metadata = {_META: (description, example, key)}
    if isinstance(default, dict):
        return field(default_factory=lambda: default, metadata=metadata, repr=not hidden)
    return field(default=default, metadata=metadata, repr=not hidden)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the configuration.

    Attributes:
        attribute: name of the field.
        default: its value when nothing is given.
        section: the settings that it holds; None for a key with a value.
        kind: of its value; None for one of `words`.
        words: the allowed words, if the kind is None.
    """

    attribute: str
    default: object
    description: str
    example: object
    section: type[Settings] | None
    kind: Kind | None
    words: tuple[str, ...]


def keys_of(section: type[Settings]) -> Mapping[str, Key]:
    """Return the keys of a section by name, without the keys of nested sections."""
    if section not in _KEYS:
        hints = get_type_hints(section, include_extras=True)
        declared = [each for each in fields(section) if _META in each.metadata]
        _KEYS[section] = {each.metadata[_META][2] or each.name: _key(each, hints[each.name]) for each in declared}
    return _KEYS[section]


def all_keys(section: type[Settings], prefix: str = "") -> Mapping[str, Key]:
    """Return every key with its dots (`source.exporter.targets`), sections before what is in them."""
    keys: dict[str, Key] = {}
    for name, key in keys_of(section).items():
        keys[prefix + name] = key
        if key.section:
            keys |= all_keys(key.section, f"{prefix}{name}.")
    return keys


_KEYS: dict[type[Settings], Mapping[str, Key]] = {}


def _key(declared: Field[Any], hint: object) -> Key:
    description, example, _ = declared.metadata[_META]
    parts = list(_parts(hint))
    return Key(
        declared.name,
        declared.default
        if declared.default is not MISSING
        else cast("Callable[[], object]", declared.default_factory)(),
        description(declared.name) if callable(description) else description,
        example,
        next((part for part in parts if isinstance(part, type) and issubclass(part, Settings)), None),
        next((part for part in parts if isinstance(part, Kind)), None),
        tuple(part for part in parts if isinstance(part, str)),
    )


def _parts(hint: object) -> Iterator[object]:
    """Yield what a type is made of: annotations before what they annotate, words of a `Literal`, sides of a union."""
    metadata = getattr(hint, "__metadata__", ())
    yield from metadata
    yield hint
    for part in () if any(isinstance(each, Kind) for each in metadata) else get_args(hint):
        yield from _parts(part)


def without(section: Settings, needed: str) -> Iterator[Problem]:
    """Yield all other keys of a section, which have no effect without one of them."""
    return ((name, f"it needs {needed}") for name in keys_of(type(section)) if name != needed)


def is_text(value: object) -> bool:
    """Return whether this is a text that can be written as UTF-8."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()
