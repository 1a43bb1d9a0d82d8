"""Reads a tree of settings from a document: pulsed's own configuration, or the web configuration.

Every problem is a line: place, key, value, what is allowed. None repeats a secret, nor a list or mapping that could
hold one. Independent of the keys.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from pulsed.config.settings import (
    NOT_ALLOWED,
    Key,
    Kind,
    ListKind,
    Problem,
    Settings,
    Style,
    TableKind,
    all_keys,
    keys_of,
    one_of,
)
from pulsed.config.yaml import BadYaml, Given, YamlText
from pulsed.errors import ConfigError, did_you_mean
from pulsed.http.credentials import masked

_S = TypeVar("_S", bound=Settings)

_LONGEST = 100
_STARS = "**********"


class Schema(Generic[_S]):
    """The keys of a document.

    Args:
        example: a line of such a document, for an error message.
    """

    def __init__(self, root: type[_S], example: str) -> None:
        self._root, self._example = root, example
        self.keys = all_keys(root)

    def style(self, path: tuple[str, ...]) -> Style:
        """Return how the plain scalars of a key are taken; in a mapping of free names, as those of the mapping."""
        while path and ".".join(path) not in self.keys:
            path = path[:-1]
        kind = self.keys[".".join(path)].kind if path else None
        return kind.style if kind else "typed"

    def read(self, file: Path, problems: list[str]) -> Given:
        """Read a YAML file; one that is empty, or that cannot be read, has no keys.

        Args:
            problems: gets what is wrong, one line each.
        """
        nothing = Given({}, str(file))
        try:
            text = file.read_bytes().decode("utf-8-sig")
            yaml = YamlText(text, str(file), self.style, file=True)
            given = yaml.read()
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
        if isinstance(given.value, dict):
            return given
        if given.value is not None:
            problems.append(f"{given.origin}: the file must hold keys with values, as in '{self._example}'")
        return nothing

    def validate(self, given: Given, problems: Sequence[str], *, on_this_machine: bool = False) -> _S:
        """Return the settings of a document.

        Args:
            problems: what is wrong with it so far.
            on_this_machine: whether the files and folders that it names are checked, too.

        Raises:
            ConfigError: with all problems, a line each: where, which key, what was given, and what is allowed.
        """
        reader = _Reader(self.keys, list(problems), on_this_machine)
        found = reader.section(self._root, given, "")
        if found is None or reader.problems:
            raise ConfigError("\n".join(reader.problems))
        return found


class _Reader:
    """Turns what is given into settings.

    Attributes:
        problems: a line each. What cannot be read is `_UNREAD`.
    """

    def __init__(self, keys: Mapping[str, Key], problems: list[str], on_this_machine: bool) -> None:
        self._keys, self.problems, self._on_this_machine = keys, problems, on_this_machine

    def section(self, section: type[_S], given: Given, path: str) -> _S | None:
        """Return the settings of a section, of which some may be `_UNREAD`; None if there are none.

        Args:
            path: that of its key, empty for the whole document.
        """
        if not isinstance(given.value, dict):
            self._report(given, path, f"{_plain(given)} {NOT_ALLOWED}; {self._keys_of(path)}")
            return None
        keys = keys_of(section)
        values: dict[str, object] = {}
        for name, key in keys.items():
            inner = given.value.get(name)
            if inner is not None and inner.value is not None:  # a key that is given nothing has its default
                values[key.attribute] = self._value(key, inner, _dotted(path, name))
        for name, inner in given.value.items():
            if name not in keys:
                self._report(inner, _dotted(path, name), f"unknown key; {self._hint(path, name)}")
        read = {name: value for name, value in values.items() if value is not _UNREAD}
        refused = list(section.refused(read))
        self._report_all(refused, given, path)
        if refused:
            return None
        found = None
        with contextlib.suppress(TypeError) if self.problems else contextlib.nullcontext():
            found = section(**section.arguments(values))
            if given.value.keys() <= keys.keys():  # a misspelt key is not missing
                self._report_all(found.problems(), given, path)
            if self._on_this_machine:
                self._report_all(found.unusable(), given, path)
        return found

    def _report_all(self, problems: Iterable[Problem], given: Given, path: str) -> None:
        for name, message in problems:
            parts = [int(part) if part.isdecimal() else part for part in re.findall(r"\w+", name)]
            self._report(given.at(parts), _dotted(path, name), message)

    def _value(self, key: Key, given: Given, path: str) -> object:
        if key.section:
            return self.section(key.section, given, path) or _UNREAD
        kind = key.kind or Kind("", ", ".join(key.words), one_of(key.words))
        if isinstance(kind, ListKind):
            return self._list(kind, given, path)
        return (
            self._table(kind, given, path, kind.depth) if isinstance(kind, TableKind) else self._one(kind, given, path)
        )

    def _list(self, kind: ListKind, given: Given, path: str) -> object:
        before = len(self.problems)
        if isinstance(given.value, list):
            items = [self._one(kind, item, f"{path}[{number}]") for number, item in enumerate(given.value)]
        elif kind.words and isinstance(given.value, str):
            items = [self._one(kind, Given(each, given.origin), path) for each in given.value.replace(",", " ").split()]
        elif kind.single:
            items = [self._one(kind, given, path)]
        else:
            self._refuse(kind, given, path, NOT_ALLOWED)
            return _UNREAD
        if len(items) < kind.least:
            self._refuse(kind, given, path, NOT_ALLOWED)
        if len(self.problems) > before:
            return _UNREAD
        try:
            return kind.check(tuple(items))
        except ValueError as error:
            self._refuse(kind, given, path, str(error))
            return _UNREAD

    def _table(self, kind: TableKind, given: Given, path: str, depth: int) -> object:
        if not isinstance(given.value, dict):
            self._refuse(kind, given, path, NOT_ALLOWED)
            return _UNREAD
        before = len(self.problems)
        found: dict[object, object] = {}
        for written, inner in given.value.items():
            try:
                name = kind.parse_name(written)
            except ValueError as error:
                shown_name = "this name" if kind.secret else shown(written)
                self._report(inner, path, f"{shown_name} {error}; allowed: {kind.allowed}")
                continue
            entry = f"{path}.{written}"
            found[name] = self._one(kind, inner, entry) if depth == 1 else self._table(kind, inner, entry, depth - 1)
        return found if len(self.problems) == before else _UNREAD

    def _one(self, kind: Kind, given: Given, path: str) -> object:
        try:
            if kind.style != "typed" and not _is_text(given.value):
                raise ValueError(NOT_ALLOWED)
            return kind.parse(given.value)
        except ValueError as error:
            self._refuse(kind, given, path, str(error))
            return _UNREAD

    def _refuse(self, kind: Kind, given: Given, path: str, why: str) -> None:
        value = "this value" if kind.secret else _plain(given)
        self._report(given, path, f"{value} {why}; allowed: {kind.allowed}")

    def _report(self, given: Given, path: str, message: str) -> None:
        self.problems.append(f"{given.origin}: {path}: {message}")

    def _hint(self, section: str, name: str) -> str:
        path = _dotted(section, name)
        if path in self._keys:  # `source.kind: demo`
            words = path.split(".")
            return f"write it nested, as in {{{': {'.join(words)}: ...{'}' * len(words)}"
        others = [each for each in self._keys if not path.startswith(f"{each}.")]
        return did_you_mean(path, others, self._keys_of(section))

    def _keys_of(self, section: str) -> str:
        prefix = f"{section}." if section else ""
        names = [key[len(prefix) :] for key in self._keys if key.startswith(prefix) and "." not in key[len(prefix) :]]
        return f"{section or 'the configuration'} has the keys {', '.join(names)}"


class _Unread:
    """Stands for a value that could not be read. It is not None; any other use raises TypeError, which ends checks."""

    def __getattr__(self, name: str) -> NoReturn:
        raise TypeError

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __bool__ = __iter__ = __len__ = __contains__ = __getitem__ = __str__ = __format__ = _refuse


_UNREAD = _Unread()


def shown_settings(settings: Settings) -> dict[str, object]:
    """Return all settings of a tree as JSON, for everybody to see: secrets and logins in URLs are replaced by stars."""
    return {name: _shown(key, getattr(settings, key.attribute)) for name, key in keys_of(type(settings)).items()}


def _shown(key: Key, value: object) -> object:
    if isinstance(value, Settings):
        return shown_settings(value)
    return _STARS if key.kind is not None and key.kind.secret and value else _as_json(value)


def _as_json(value: object) -> object:
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
    before, login, rest = value.rpartition("@")
    text = f"***@{rest}" if login and "://" not in before else masked(value)  # a URL whose scheme was forgotten
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _plain(given: Given) -> str:
    if isinstance(given.value, dict):
        return "a mapping"
    if isinstance(given.value, list):
        return "a list" if given.value else "an empty list"
    return shown(given.value)


def _dotted(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_text(value: object) -> bool:
    """Return whether this is a text that can be written as UTF-8."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()
