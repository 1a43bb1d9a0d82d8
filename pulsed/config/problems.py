"""Error messages of a configuration that is not valid: place, key, value, what is allowed.

Nothing here repeats a secret, nor a list or mapping that could hold one.
"""

from __future__ import annotations

from typing import get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from pulsed.config import Config
from pulsed.config.section import keys, section_of
from pulsed.config.values import notation_of, shown
from pulsed.config.yaml import Given
from pulsed.suggestions import did_you_mean

Path = tuple[str | int, ...]

_KEYS = keys(Config)


def messages_of(error: ValidationError, given: Given) -> list[str]:
    """Return one line per problem, in the order of the keys."""
    return [line for problem in error.errors(include_url=False) for line in _lines(problem, given)]


def _lines(problem: ErrorDetails, given: Given) -> list[str]:
    path = tuple(problem["loc"])
    if path and isinstance(path[-1], int) and not isinstance(_find(given, path[:-1]).value, list):
        path = path[:-1]  # one address instead of a list of one
    where, key = _find(given, path).origin, _dotted(path)
    if problem["type"] == "extra_forbidden":
        hint = did_you_mean(key, _KEYS, _keys_of(path[:-1]))
        if key in _KEYS:  # `source.kind: demo`
            hint = f"write it nested, as in {{{': {'.join(key.split('.'))}: ...{'}' * len(key.split('.'))}"
        return [f"{where}: {key}: unknown key; {hint}"]
    if problem["type"] == "rules":
        broken = problem["ctx"]["problems"]
        return [f"{_find(given, (*path, k)).origin}: {_dotted((*path, k))}: {message}" for k, message in broken]
    field = _field(path)
    if section_of(field):
        return [f"{where}: {key}: {_value(problem['input'])} is not allowed; {_keys_of(path)}"]
    why = str(problem["ctx"]["error"]) if problem["type"] == "value_error" else "is not allowed"
    secret = (notation := notation_of(field)) is not None and notation.secret
    value = "this value" if secret else _value(problem["input"])
    return [f"{where}: {key}: {value} {why}; allowed: {_allowed(field)}"]


def _field(path: Path) -> FieldInfo:
    """The key that a path leads to, or into: what is in a mapping of free words has no key of its own."""
    words = [part for part in path if isinstance(part, str)]
    while (name := ".".join(words)) not in _KEYS:
        words.pop()
    return _KEYS[name]


def _find(given: Given, path: Path) -> Given:
    """What was given at a path, or for the closest section around it."""
    for part in path:
        inner, found = given.value, None
        if isinstance(inner, dict):
            found = inner.get(str(part))
        elif isinstance(inner, list) and isinstance(part, int):
            found = inner[part]
        if found is None:
            break
        given = found
    return given


def _dotted(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    return shown(value)


def _keys_of(path: Path) -> str:
    prefix = "".join(f"{part}." for part in path)
    names = [key[len(prefix) :] for key in _KEYS if key.startswith(prefix) and "." not in key[len(prefix) :]]
    return f"{_dotted(path) or 'the configuration'} has the keys {', '.join(names)}"


def _allowed(field: FieldInfo) -> str:
    notation = notation_of(field)
    return notation.allowed if notation else ", ".join(get_args(field.annotation))
