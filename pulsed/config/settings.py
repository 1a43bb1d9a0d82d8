"""Settings: what a section of the configuration is, how its values are written, and the kinds of values of all layers.

Each layer declares its settings as dataclasses; pydantic validates them, with the kinds of this module as validators.
Must not import any layer.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar, cast, get_args, get_type_hints
from urllib.parse import urlsplit

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core import core_schema as schemas

from pulsed.durations import duration, duration_or_none, is_number

Problem = tuple[str, str]
"""What is wrong beyond a single value: a key of a section, such as `interval`, `exporter.timeout` or `targets[0]`, and
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
        """Yield contradictions between the keys of this section, each of which is valid by itself."""
        yield from ()

    def unusable(self) -> Iterator[Problem]:
        """Yield the files and folders of this section that do not exist here, or that this user may not use."""
        yield from ()

    def without_effect(self) -> Iterator[Problem]:
        """Yield keys that have no effect together with the others; they are reported if they are given."""
        yield from ()


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a kind are written and checked: the annotation of a field, which pydantic validates by it.

    Attributes:
        name: the placeholder of the documentation, without its angle brackets.
        allowed: what is allowed, for an error message.
        parse: returns the value of what is written; raises ValueError with a text that continues it: "is not a size".
            With the styles `text` and `file` it gets texts only.
        style: how a plain scalar is taken. Relative names of files count from the folder of the configuration file.
        secret: never shown: not in errors, not in `/config`.
    """

    name: str
    allowed: str
    parse: Callable[[Any], object]
    style: Style = "typed"
    secret: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the validator of values."""
        return self.item_schema()

    def item_schema(self) -> CoreSchema:
        """Return the validator of one value."""
        return schemas.no_info_plain_validator_function(self._parsed)

    def _parsed(self, value: object) -> object:
        if self.style != "typed" and not is_text(value):
            raise ValueError(NOT_ALLOWED)
        return self.parse(value)


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
        key: its name, if it is not that of the field.
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
    """Return the keys of a section by name, without those of the sections in it."""
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


def matching(pattern: str, problem: str) -> Callable[[str], str]:
    """Return a check that the whole of a text matches a regular expression."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(problem)
        return value

    return check


def one_of(words: Collection[str], problem: str = NOT_ALLOWED) -> Callable[[object], str]:
    """Return a check that a value is one of some words."""

    def check(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(problem)
        return value

    return check


def whole(least: float = -math.inf, most: float = math.inf) -> Callable[[object], int]:
    """Return a parser of whole numbers within bounds."""

    def parse(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(NOT_ALLOWED)
        return value

    return parse


def number(least: float = -math.inf, most: float = math.inf) -> Callable[[object], float]:
    """Return a parser of finite numbers within bounds."""

    def parse(value: object) -> float:
        if not is_number(value) or not least <= value <= most:
            raise ValueError(NOT_ALLOWED)
        return float(value)

    return parse


def switch(value: object) -> bool:
    """Return whether a value means yes: `true`, 1, or one of YAML 1.1's words."""
    word = value.lower() if isinstance(value, str) else str(int(value)) if value in (0, 1) else ""
    if word not in _SWITCH_WORDS:
        raise ValueError(NOT_ALLOWED)
    return _SWITCH_WORDS[word]


def is_text(value: object) -> bool:
    """Return whether this is a text that can be written as UTF-8."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()


def not_empty(value: str) -> str:
    """Return a text that is not empty."""
    if not value.strip():
        raise ValueError("is empty")
    return value


def size(value: object) -> int:
    """Return the bytes of a size: a whole number, or `64MiB`, `1.5 GB`."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    parts = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if parts is None or parts[2] not in _SIZES:
        raise ValueError("is not a size")
    byte_count = int(float(parts[1]) * _SIZES[parts[2]])
    if byte_count < 1:
        raise ValueError("is too small")
    return byte_count


def moment(value: object) -> float:
    """Unix seconds of a time: such seconds, or RFC 3339 as in `2026-01-01T00:00:00Z` (UTC unless it has an offset)."""
    if is_number(value):
        return float(value)
    try:
        when = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", value.strip())) if isinstance(value, str) else None
    except ValueError:
        when = None
    if when is None:
        raise ValueError("is not a time")
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def is_path(target: str) -> bool:
    """Return whether a name is that of a file (`page.prom`), not a URL and not a URL without its scheme."""
    return "://" not in target and not _HOST_AND_PORT.fullmatch(target)


def resolve_path(file: str, name: str) -> str:
    """Return a file name of the configuration file `file`: relative ones start in its folder. URLs are not changed."""
    return os.path.join(os.path.dirname(file), name) if name and is_path(name) else name


http_path = matching(r"/[A-Za-z0-9._~/-]*", "is not a path of a page")


def route_prefix(value: str) -> str:
    """Return a path with a slash at its beginning and none at its end; empty for `/`."""
    return http_path(f"/{value.strip('/')}").rstrip("/")


def external_url(value: str) -> str:
    """Return a URL of scheme, host, port and path, without a slash at its end."""
    try:
        parts = urlsplit(value)
        usable = parts.hostname and parts.port != 0
    except ValueError:  # an invalid bracket or port
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https") or not usable:
        raise ValueError("does not begin with http:// or https:// and a host")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("has more than scheme, host, port and path")
    http_path(parts.path or "/")
    return value.rstrip("/")


_SWITCH_WORDS = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True)
_SWITCH_WORDS |= dict.fromkeys(("false", "f", "no", "n", "off", "0"), False)
_SIZES = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d+)?) ?([A-Za-z]*)")
_HOST_AND_PORT = re.compile(r"(.*@)?(\[[^\[\]/@]*\]|[^/:@\s]+):\d+(/.*)?", re.DOTALL)

Switch = Annotated[bool, Kind("boolean", "true, false", switch)]
WholeNumber = Annotated[int, Kind("int", "a whole number", whole())]
Count = Annotated[int, Kind("count", "a whole number, 0 or more", whole(0))]
PositiveCount = Annotated[int, Kind("positive", "a whole number, 1 or more", whole(1))]
Factor = Annotated[float, Kind("number", "a number, 0 or more", number(0))]
Ratio = Annotated[float, Kind("ratio", "a number from 0 to 1", number(0, 1))]
Duration = Annotated[
    float, Kind("duration", "seconds as a number above 0, or a text such as 100ms, 15s, 1m, 1h30m", duration)
]
DurationOrNone = Annotated[
    float,
    Kind("duration or 0", "seconds as a number, 0 or more, or a text such as 100ms, 15s, 1m, 1h30m", duration_or_none),
]
Size = Annotated[int, Kind("size", "bytes as a number, or a text such as 512KiB, 64MiB, 1GB", size)]
Moment = Annotated[float, Kind("time", "Unix seconds, or a text such as 2026-01-01T00:00:00Z", moment)]
Text = Annotated[str, Kind("string", "a text that is not empty", not_empty, "text")]
FileName = Annotated[str, Kind("filename", "the name of a file or folder", not_empty, "file")]
Secret = Annotated[str, Kind("secret", "a text", str, "text", secret=True)]
HttpPath = Annotated[str, Kind("path", "a path that begins with /, such as /metrics", http_path, "text")]
RoutePrefix = Annotated[str, Kind("prefix", "a path such as /gpu-node-1/pulsed, or /", route_prefix, "text")]
ExternalUrl = Annotated[str, Kind("url", "a URL such as https://example.org/pulsed/", external_url, "text")]
FieldNames = Annotated[
    tuple[str, ...],
    ListKind(
        "names",
        "names of quantities, such as [sm_active_ratio, power_watts]",
        not_empty,
        "text",
        single=False,
        words=True,
        least=1,
    ),
]
