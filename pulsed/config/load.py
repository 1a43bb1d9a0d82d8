"""Loads a configuration: flags over environment over file over defaults, with all errors at once.

The order among flags: one of its own (`--log.level`) goes before `--set`, and of several `--set` the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pulsed.config.schema import Schema
from pulsed.config.yaml import BadYaml, Given, YamlText
from pulsed.errors import nearest
from pulsed.settings import Settings

FILE_VARIABLE = "PULSED_CONFIG_FILE"
PREFIX = "PULSED_"

# Kubernetes sets such variables for the Services of a namespace in every container, also for a Service `pulsed`.
_SERVICE_LINK = re.compile(
    r"PULSED_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_PORT = re.compile(r"PULSED_(\w+_)?PORT")  # `tcp://10.0.0.1:9401`; a bare 9401 is a mistake

_S = TypeVar("_S", bound=Settings)


def load(
    schema: Schema[_S],
    file: Path | None,
    overrides: Sequence[str],
    environment: Mapping[str, str],
    flags: Mapping[str, tuple[str, object]],
) -> _S:
    """Return the settings of a schema.

    Args:
        file: the YAML file, if any.
        overrides: the values of `--set`, each `key.path=value`, the value in YAML.
        environment: all variables of the process; those that do not begin with `PULSED_` are left alone.
        flags: by key the flag of its own, for messages, and the value: a text as given, a list of such, or a switch.

    Raises:
        ConfigError: with all problems, a line each: where, which key, what was given, and what is allowed.
    """
    problems: list[str] = []
    given = Given({}, "the configuration")
    for layer in (
        *([schema.read(file, problems)] if file else []),
        *_environment(schema, environment, problems),
        *_overrides(schema, overrides, problems),
        *_flags(schema, flags, problems),
    ):
        given = _over(given, layer)
    return schema.validate(given, problems)


def file_of(file: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the configuration file: the given one, else the one that the environment names, if any."""
    named = environment.get(FILE_VARIABLE)
    return Path(named) if file is None and named else file


def _environment(schema: Schema[_S], environment: Mapping[str, str], problems: list[str]) -> list[Given]:
    layers: list[Given] = []
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or name == FILE_VARIABLE:
            continue
        key, origin = name[len(PREFIX) :].lower().replace("__", "."), f"environment variable {name}"
        if key in schema.keys:
            secret = (kind := schema.keys[key].kind) is not None and kind.secret
            # A secret comes as it is: a Kubernetes Secret is not YAML.
            value = Given(text, origin) if secret else _value(schema, text, origin, key, problems)
            layers += _layer(key, value)
        elif not _is_service_link(name, text):
            near = nearest(key, list(schema.keys))
            hint = f"did you mean {PREFIX}{near.upper().replace('.', '__')}?" if near else "see CONFIGURATION.md"
            problems.append(f"{origin}: no key has this name; {hint}")
    return layers


def _overrides(schema: Schema[_S], overrides: Sequence[str], problems: list[str]) -> list[Given]:
    layers: list[Given] = []
    for number, override in enumerate(overrides, start=1):
        key, equals, text = override.partition("=")
        key = key.strip()
        if not equals or not re.fullmatch(r"\w+(\.\w+)*", key):  # the text may be a secret: it is not repeated
            problems.append(f"--set number {number}: must be key.path=value, as in --set source.interval=15s")
            continue
        layers += _layer(key, _value(schema, text, "--set", key, problems))
    return layers


def _flags(schema: Schema[_S], flags: Mapping[str, tuple[str, object]], problems: list[str]) -> list[Given]:
    layers: list[Given] = []
    for key, (origin, value) in flags.items():
        if isinstance(value, str):
            layers += _layer(key, _value(schema, value, origin, key, problems))
        elif isinstance(value, (list, tuple)):
            layers += _layer(key, Given([Given(str(item), origin) for item in value], origin))
        elif isinstance(value, (bool, int, float)):
            layers += _layer(key, Given(value, origin))
    return layers


def _value(schema: Schema[_S], text: str, origin: str, key: str, problems: list[str]) -> Given | None:
    """Return the value of a text in YAML. An address or a name that is not YAML (`[::1]:9401`) is taken as it is."""
    path, yaml = tuple(key.split(".")), YamlText(text, origin, schema.style)
    try:
        given = yaml.read(path)
    except BadYaml as error:
        if schema.style(path) != "typed":
            return Given(text, origin)
        problems.append(f"{error} (key {key})")
        return None
    problems += yaml.problems
    return given


def _layer(key: str, given: Given | None) -> list[Given]:
    """Return the value wrapped into the sections of its key; nothing for a value that could not be read."""
    if given is None:
        return []
    for name in reversed(key.split(".")):
        given = Given({name: given}, given.origin)
    return [given]


def _over(lower: Given, upper: Given) -> Given:
    """Return the upper value over the lower: mappings are merged, all else is replaced."""
    if not isinstance(lower.value, dict) or not isinstance(upper.value, dict):
        return upper
    merged = dict(lower.value)
    for name, given in upper.value.items():
        merged[name] = _over(merged[name], given) if name in merged else given
    return Given(merged, upper.origin)


def _is_service_link(name: str, text: str) -> bool:
    return bool(_SERVICE_LINK.fullmatch(name) or (_SERVICE_PORT.fullmatch(name) and "://" in text))
