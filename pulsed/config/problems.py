"""Error messages of a configuration that is not valid: place, key, value, what is allowed.

Nothing here repeats a secret, nor a list or mapping that could hold one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from pulsed.config.section import section_of
from pulsed.config.value_parsers import shown
from pulsed.config.values import notation_of
from pulsed.config.yaml import Given
from pulsed.suggestions import did_you_mean

Path = tuple[str | int, ...]

Keys = Mapping[str, FieldInfo]


def messages_of(error: ValidationError, given: Given, keys: Keys) -> list[str]:
    """Return one line per problem, in the order of the keys."""
    problems = error.errors(include_url=False)
    wrong_names = {problem["loc"][:-1] for problem in problems if problem["loc"][-1:] == ("[key]",)}
    return [
        line
        for problem in problems
        if problem["loc"] not in wrong_names  # a name that is wrong may be a secret: its value's error would repeat it
        for line in _lines(problem, given, keys)
    ]


def _lines(problem: ErrorDetails, given: Given, keys: Keys) -> list[str]:
    path = tuple(problem["loc"])
    if path and isinstance(path[-1], int) and not isinstance(given.at(path[:-1]).value, list):
        path = path[:-1]  # one address instead of a list of one
    is_name = path[-1:] == ("[key]",)  # in a mapping of free names
    if is_name:
        path = path[:-1]
    where, key = given.at(path).origin, _dotted(path[:-1] if is_name else path)
    if problem["type"] == "extra_forbidden":
        others = [each for each in keys if not key.startswith(f"{each}.")]
        hint = did_you_mean(key, others, _keys_of(path[:-1], keys))
        if key in keys:  # `source.kind: demo`
            hint = f"write it nested, as in {{{': {'.join(key.split('.'))}: ...{'}' * len(key.split('.'))}"
        return [f"{where}: {key}: unknown key; {hint}"]
    if problem["type"] == "rules":
        broken = problem["ctx"]["problems"]
        return [f"{given.at((*path, k)).origin}: {_dotted((*path, k))}: {message}" for k, message in broken]
    field = _field(path, keys)
    if section_of(field):
        return [f"{where}: {key}: {_value(problem['input'])} is not allowed; {_keys_of(path, keys)}"]
    why = str(problem["ctx"]["error"]) if problem["type"] == "value_error" else "is not allowed"
    secret = (notation := notation_of(field)) is not None and notation.secret
    value = f"this {'name' if is_name else 'value'}" if secret else _value(problem["input"])
    return [f"{where}: {key}: {value} {why}; allowed: {_allowed(field)}"]


def _field(path: Path, keys: Keys) -> FieldInfo:
    """Return the key that a path leads to, or into: what is in a mapping of free names has no key of its own."""
    words = [part for part in path if isinstance(part, str)]
    while (name := ".".join(words)) not in keys:
        words.pop()
    return keys[name]


def _dotted(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    return shown(value)


def _keys_of(path: Path, keys: Keys) -> str:
    prefix = "".join(f"{part}." for part in path)
    names = [key[len(prefix) :] for key in keys if key.startswith(prefix) and "." not in key[len(prefix) :]]
    return f"{_dotted(path) or 'the configuration'} has the keys {', '.join(names)}"


def _allowed(field: FieldInfo) -> str:
    notation = notation_of(field)
    return notation.allowed if notation else ", ".join(_words(field.annotation))


def _words(annotation: object) -> list[str]:
    """Return the words of a `Literal`, also inside `| None`."""
    return [word for part in get_args(annotation) for word in ([part] if isinstance(part, str) else _words(part))]
