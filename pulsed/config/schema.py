"""Reads a tree of settings from a document: pulsed's own configuration, or the web configuration.

pydantic validates the values; its errors become lines: place, key, value, allowed values. None repeats a secret, nor a
list or mapping that could hold one. Independent of the keys.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from operator import getitem
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from pulsed.config.removed import REMOVED, replacement
from pulsed.config.settings import NOT_ALLOWED, Entry, Key, Kind, Problem, Settings, Style, all_keys, keys_of
from pulsed.config.yaml import BadYaml, LocatedValue, YamlText
from pulsed.errors import ConfigError, did_you_mean
from pulsed.http.credentials import masked
from pulsed.regular_file import read_regular

_S = TypeVar("_S", bound=Settings)

MAX_BYTES = 2**18
"""Size limit of a document: reading YAML takes seconds, and some 100 times its memory."""

_MAX_SHOWN_LENGTH = 100
STARS = "**********"


class Schema(Generic[_S]):
    """The keys of a document.

    Args:
        example: a line of such a document, for an error message.
    """

    def __init__(self, root: type[_S], example: str) -> None:
        self._root, self._example = root, example
        self.keys = all_keys(root)

    def style(self, path: tuple[str, ...]) -> Style:
        """Return the style of the plain scalars of a key; in a mapping of free names, the style of the mapping."""
        within: tuple[str, ...] = ()
        while path and ".".join(path) not in self.keys:
            path, within = path[:-1], (path[-1], *within)
        kind = self.keys[".".join(path)].kind if path else None
        if kind is None:
            return "typed"
        return "text" if within and within[0] in kind.text_entries else kind.style

    def read(self, file: Path, problems: list[str]) -> LocatedValue:
        """Read a YAML file; one that is empty, or that cannot be read, has no keys.

        Args:
            problems: gets what is wrong, one line each.
        """
        nothing = LocatedValue({}, str(file))
        try:
            text = read_regular(file, MAX_BYTES).decode("utf-8-sig")
            yaml = YamlText(text, str(file), self.style, file=True)
            document = yaml.read()
        except OSError as error:
            problems.append(f"{file}: cannot be read: {error.strerror}; name a YAML file that pulsed's user may read")
            return nothing
        except ValueError as error:  # a zero byte in the name, or not UTF-8
            reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            problems.append(f"{file}: cannot be read: {reason}; name a YAML file")
            return nothing
        except BadYaml as error:
            problems.append(str(error))
            return nothing
        problems += yaml.problems
        if isinstance(document.value, dict):
            return document
        if document.value is not None:
            problems.append(f"{document.origin}: the file must hold keys with values, as in '{self._example}'")
        return nothing

    def validate(self, document: LocatedValue, problems: Sequence[str], *, on_this_machine: bool = False) -> _S:
        """Return the settings of a document.

        Args:
            problems: its problems so far.
            on_this_machine: whether to check the files and folders that it names as well.

        Raises:
            ConfigError: with all problems, one per line: place, key, given value, and allowed values.
        """
        messages = list(problems)
        plain = _plain(self._root, document)
        try:
            settings = self._adapter.validate_python(plain)
        except ValidationError as invalid:
            errors = invalid.errors(include_url=False)
            settings = self._without_invalid(plain, {self._field(error["loc"]) for error in errors})
            names = {error["loc"][:-1] for error in errors if error["loc"][-1] == _NAME_OF_ENTRY}
            messages += [self._line(error, document) for error in errors if error["loc"] not in names]
        messages += self._sections(settings, document, (), on_this_machine)
        if messages:
            raise ConfigError("\n".join(messages))
        return settings

    @cached_property
    def _adapter(self) -> TypeAdapter[_S]:
        return TypeAdapter(self._root)

    def _without_invalid(self, plain: Any, fields: Collection[KeyPath]) -> _S:
        """Return the settings with `_UNREAD` in fields whose values are invalid, to check the others together."""
        for *section, name in fields:
            del reduce(getitem, section, plain)[name]
        settings = self._adapter.validate_python(plain)
        for *section, name in fields:
            object.__setattr__(reduce(getattr, map(str, section), settings), str(name), _UNREAD)
        return settings

    def _field(self, location: KeyPath) -> KeyPath:
        """Return the field of an error: the begin of its location."""
        section: type[Settings] = self._root
        for length, part in enumerate(location, start=1):
            key = next(key for key in keys_of(section).values() if key.attribute == part)
            if key.section is None or length == len(location):
                return location[:length]
            section = key.section
        return location

    def _sections(
        self, settings: Settings, document: LocatedValue, path: KeyPath, on_this_machine: bool
    ) -> Iterator[str]:
        """Yield a line for each unknown key of a document, and for each problem of a section as a whole."""
        if not isinstance(document.value, dict):
            return
        keys = keys_of(type(settings))
        for name, key in keys.items():
            inner = getattr(settings, key.attribute)
            if name in document.value and isinstance(inner, Settings):
                yield from self._sections(inner, document.value[name], (*path, name), on_this_machine)
        unknown = [name for name in document.value if name not in keys]
        for name in unknown:
            yield _line(document, (name,), self._unknown((*path, name)), _dotted((*path, name)))
        with contextlib.suppress(_UnreadError):
            if not unknown:  # a misspelt key is not missing
                yield from _together(settings.problems(), document, path)
        with contextlib.suppress(_UnreadError):
            if on_this_machine:
                yield from _together(settings.unusable(), document, path)

    def _line(self, error: ErrorDetails, document: LocatedValue) -> str:
        """Return the line of an error of pydantic."""
        location, value = error["loc"], error["input"]
        path = self._written(location)
        name = _dotted(self._written(self._field(location)))
        key = self.keys[name]
        if key.section:
            return _line(document, path, f"{_described(value)} {NOT_ALLOWED}; {self._keys_of(name)}")
        if instead := REMOVED.get(f"{name}: {value}"):
            return _line(document, path, f"{_described(value)} was removed; {instead}")
        kind = key.kind or Kind("", ", ".join(key.words), str)
        cause = error.get("ctx", {}).get("error")
        why = f"{cause if isinstance(cause, ValueError) else NOT_ALLOWED}; allowed: {kind.allowed}"
        if path[-1] == _NAME_OF_ENTRY:
            return _line(document, path[:-1], f"{'this name' if kind.secret else shown(path[-2])} {why}", name)
        if isinstance(path[-1], int) and not isinstance(document.at(path[:-1]).value, list):
            path = path[:-1]  # one value without brackets
        return _line(document, path, f"{'this value' if kind.secret else _described(value)} {why}")

    def _written(self, location: KeyPath) -> KeyPath:
        """Return a location with the names of keys instead of fields."""
        path: list[str | int] = []
        section: type[Settings] | None = self._root
        for part in location:
            keys = keys_of(section) if section else {}
            path.append(next((name for name, key in keys.items() if key.attribute == part), part))
            section = keys[str(path[-1])].section if keys else None
        return tuple(path)

    def _unknown(self, path: KeyPath) -> str:
        instead = replacement(_dotted(path))
        return f"was removed; {instead}" if instead else f"unknown key; {self._hint(path)}"

    def _hint(self, path: KeyPath) -> str:
        name, section = _dotted(path), _dotted(path[:-1])
        if name in self.keys:  # `source.kind: demo`
            words = name.split(".")
            return f"write it nested, as in {{{': {'.join(words)}: ...{'}' * len(words)}"
        others = [each for each in self.keys if not name.startswith(f"{each}.")]
        return did_you_mean(name, others, self._keys_of(section))

    def _keys_of(self, section: str) -> str:
        prefix = f"{section}." if section else ""
        names = [key[len(prefix) :] for key in self.keys if key.startswith(prefix) and "." not in key[len(prefix) :]]
        return f"{section or 'the configuration'} has the keys {', '.join(names)}"


KeyPath = tuple[str | int, ...]
"""Names of keys and of entries, and positions in lists."""

_NAME_OF_ENTRY = "[key]"
"""The end of the location of an error that is about the name of an entry."""


def _plain(section: type[Settings] | None, document: LocatedValue) -> Any:
    """Return what is given as plain values, by field, without unknown keys and those that are given nothing."""
    if section is None or not isinstance(document.value, dict):
        return document.plain
    return {
        key.attribute: _plain(key.section, inner)
        for name, key in keys_of(section).items()
        if (inner := document.value.get(name)) is not None and inner.value is not None
    }


def without_effect(settings: Settings, document: LocatedValue, path: KeyPath = ()) -> Iterator[str]:
    """Yield a line for each key of a valid document that has no effect together with the others."""
    keys = keys_of(type(settings))
    idle = dict(settings.without_effect())
    for name, inner in document.value.items() if isinstance(document.value, dict) else ():
        if name in idle:
            for key in _keys_within(keys[name], inner, (*path, name)):
                yield f"{inner.at(key[len(path) + 1 :]).origin}: {_dotted(key)}: has no effect; {idle[name]}"
        elif isinstance(section := getattr(settings, keys[name].attribute), Settings):
            yield from without_effect(section, inner, (*path, name))


def _keys_within(key: Key, document: LocatedValue, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the paths of the keys with values that are given for a key."""
    if document.value is None:
        return
    if key.section is None or not isinstance(document.value, dict):
        yield path
        return
    keys = keys_of(key.section)
    for name, inner in document.value.items():
        yield from _keys_within(keys[name], inner, (*path, name))


def _together(problems: Iterable[Problem], document: LocatedValue, path: KeyPath) -> Iterator[str]:
    """Yield a line for each problem of a section."""
    for name, message in problems:
        parts = re.findall(r"\w+", name)  # of `exporter.timeout` or `targets[0]`
        place = tuple(int(part) if part.isdecimal() else part for part in parts)
        yield _line(document, place, message, _dotted((*path, name)))


class _UnreadError(Exception):
    """Ends a check that needs a value that is invalid."""


class _Unread:
    """Stands for an invalid value. It is not None; any other use raises `_UnreadError`."""

    def __getattr__(self, name: str) -> NoReturn:
        raise _UnreadError

    def _refuse(self, *_: object) -> NoReturn:
        raise _UnreadError

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __bool__ = __iter__ = __len__ = __contains__ = __getitem__ = __str__ = __format__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __fspath__ = __float__ = __index__ = _refuse


_UNREAD = _Unread()


def shown_settings(settings: Settings) -> dict[str, object]:
    """Return all settings of a tree as JSON, for everybody to see: secrets and logins in URLs are replaced by stars."""
    return {name: _shown(key, getattr(settings, key.attribute)) for name, key in keys_of(type(settings)).items()}


def files_with_secrets(settings: Settings, file: Path) -> Iterator[Path]:
    """Yield the files with secrets: those that keys name, and `file`, which holds the settings, if it has some."""
    given = [(key, value) for key, value in _values(settings) if value]
    if any((key.kind is not None and key.kind.secret) or _has_login(value) for key, value in given):
        yield file
    yield from (Path(str(value)) for key, value in given if key.kind is not None and key.kind.secret_file)


def _values(settings: Settings) -> Iterator[tuple[Key, object]]:
    """Yield all keys of a tree except sections, with their values."""
    for key in keys_of(type(settings)).values():
        value = getattr(settings, key.attribute)
        if isinstance(value, Settings):
            yield from _values(value)
        else:
            yield key, value


def _has_login(value: object) -> bool:
    """Return whether a URL in a value has a password."""
    if isinstance(value, Entry):
        value = value.written
    if isinstance(value, Mapping):
        return any(map(_has_login, value.values()))
    return any(map(_has_login, value)) if isinstance(value, tuple) else _as_json(value) != value


def _shown(key: Key, value: object) -> object:
    if isinstance(value, Settings):
        return shown_settings(value)
    return STARS if key.kind is not None and key.kind.secret and value else _as_json(value)


def _as_json(value: object) -> object:
    if isinstance(value, Entry):
        value = value.written
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _as_json(item) for name, item in value.items()}
    return masked(value) if isinstance(value, str) and "://" in value else value


def shown(value: object) -> str:
    """Return a scalar as an error message may show it: quoted, short, without logins."""
    if value is None:
        return "nothing"
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else str(value)
    text = masked(value)
    return repr(text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…")


def _described(value: object) -> str:
    """Return a value as an error message may show it; a list or mapping, which may hold a secret, by its type."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return shown(value)


def _line(document: LocatedValue, path: KeyPath, message: str, name: str = "") -> str:
    """Return a line about what is given at a path.

    Args:
        name: of the key, if it is not the path.
    """
    return f"{document.at(path).origin}: {name or _dotted(path)}: {message}"


def _dotted(path: KeyPath) -> str:
    """Return a path as it is written: `source.exporter.targets[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
