"""The arguments of commands: the parser, whose errors name the nearest option or value, the types of arguments, and the
configuration that they lead to."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, NoReturn

from pulsed.errors import UsageError, did_you_mean, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from pulsed.config.configuration import Config
    from pulsed.translate.fields import ExporterVersion
from collections.abc import Iterator
from itertools import product

_KEY = "config."

_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*)' \(choose from ([^()]*)\)")


class CommandParser(argparse.ArgumentParser):
    """A parser that raises errors of usage.

    Attributes:
        usage_error: the class of its errors.
        failure_code: the exit code if the output cannot be written.
    """

    usage_error: type[UsageError] = UsageError
    failure_code = 1

    def error(self, message: str) -> NoReturn:
        """Raise the error for this message of argparse."""
        if choice := _CHOICE.fullmatch(message):
            option, value, listed = choice.groups()
            allowed = re.findall(r"[\w-]+", listed)
            otherwise = f"allowed: {', '.join(allowed)}"
            what = f"there is no command {value!r}" if option == "COMMAND" else f"{option}: {value!r} is not allowed"
            message = f"{what}; {did_you_mean(value, allowed, otherwise)}"
        command = self.prog.removeprefix("pulsed").strip()
        message = message.removeprefix("argument ")
        raise self.usage_error(f"{command}: {message}" if command else message, f"See `{self.prog} --help`")

    def flags(self, options: argparse.Namespace) -> dict[str, tuple[str, object]]:
        """Return by configuration key the flag that sets it, and its value: those with a `dest` of `config.KEY`."""
        flags: dict[str, tuple[str, object]] = {}
        for action in self._actions:
            if action.dest.startswith(_KEY) and (value := getattr(options, action.dest)) is not None:
                flags.setdefault(action.dest.removeprefix(_KEY), (action.option_strings[0], value))
        return flags

    def arguments(self) -> list[argparse.Action]:
        """Return the arguments and options in the order of the help."""
        return [action for action in self._actions if action.help != argparse.SUPPRESS]

    def unknown(self, argument: str) -> NoReturn:
        """Raise the error for an argument that this command does not have."""
        name = argument.partition("=")[0]
        if not name.startswith("-"):
            self.error(f"unexpected argument {name!r}")
        near = nearest(name.lstrip("-"), (text.lstrip("-") for each in self._actions for text in each.option_strings))
        self.error(f"unknown option {name}; did you mean --{near}?" if near else f"unknown option {name}")


def configuration(options: argparse.Namespace) -> Config:
    """Return the configuration and set up its log; raises `ConfigError`."""
    from pulsed import log

    config = load_config(options)
    log.setup(config.log.level, config.log.format)
    config.log_unused()
    return config


def load_config(options: argparse.Namespace) -> Config:
    """Return the configuration; raises `ConfigError`. Reads files: its file system, or theirs, may hang."""
    from pulsed.config.configuration import load

    config = load(config_file(options), options.overrides, os.environ, options.parser.flags(options))
    config.source.check_files()
    return config


def config_file(options: argparse.Namespace) -> Path | None:
    """Return the configuration file that is given as an option."""
    from pathlib import Path

    return Path(options.config_file) if options.config_file else None


def time_span(text: str) -> float:
    """Return the seconds of a duration such as `60s`."""
    from pulsed.durations import duration

    try:
        return duration(float(text) if text.replace(".", "", 1).isdecimal() else text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}; give a duration such as 60s or 1h30m") from None


def version_tag(text: str) -> ExporterVersion:
    """Return the version of a tag."""
    from pulsed.translate.fields import exporter_version

    try:
        return exporter_version(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def positive_number(text: str) -> int:
    """Return a whole number above 0."""
    if not text.isdecimal() or (number := int(text)) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def object_name(text: str) -> str:
    """Return a name of a Kubernetes object."""
    if not re.fullmatch(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name of Kubernetes; use lower case letters, digits, - and ."
        )
    return text


def label_pairs(text: str) -> dict[str, str]:
    """Return labels from `name=value,name=value`."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not all(pairs) or not all(pairs.values()):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value,name=value")
    return pairs


MAX_HOSTS = 65536

_SEPARATORS = re.compile(r"(\[[^\[\]]*\]|,)")
_PARTS = re.compile(r"[^\[\],\s]+|\[[^\[\]]*\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expanded_hosts(text: str) -> list[str]:
    """Return the host names of a list, in its order and each once.

    A range keeps leading zeros: `n[08-10]` is n08, n09, n10. A name may have several brackets.

    Raises:
        UsageError: it is not such a list, or has more than `MAX_HOSTS` names.
    """
    hosts: dict[str, None] = {}
    for name in _names(text.strip()):
        parts = _PARTS.findall(name)
        if not name or "".join(parts) != name:
            raise _refusal(text, f"{name!r} is not a host name")
        choices = [_choices(part, text) if part.startswith("[") else [part] for part in parts]
        size = len(hosts)
        for choice in choices:
            size = max(size, 1) * len(choice)
        if size > MAX_HOSTS:
            raise _refusal(text, f"more than {MAX_HOSTS} hosts")
        hosts.update(dict.fromkeys(map("".join, product(*choices))))
    return list(hosts)


def _names(text: str) -> Iterator[str]:
    """Yield the names between the commas outside of brackets."""
    parts: list[str] = []
    for part in _SEPARATORS.split(text):
        if part == ",":
            yield "".join(parts)
            parts = []
        else:
            parts.append(part)
    yield "".join(parts)


def _choices(brackets: str, text: str) -> list[str]:
    choices: list[str] = []
    for each in brackets[1:-1].split(","):
        match = _RANGE.fullmatch(each)
        if match is None:
            raise _refusal(text, f"{each!r} in {brackets} is not a number or a range")
        first, last = match[1], match[2] or match[1]
        count = int(last) - int(first) + 1
        if count < 1 or count > MAX_HOSTS:
            raise _refusal(text, f"{each!r} in {brackets} is not a range of 1 to {MAX_HOSTS} numbers")
        choices += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return choices


def _refusal(text: str, problem: str) -> UsageError:
    shown = text if len(text) <= 80 else f"{text[:80]}..."
    return UsageError(f"--nodes {shown!r}: {problem}", "Give host names such as gpu[01-04,07],login1")
