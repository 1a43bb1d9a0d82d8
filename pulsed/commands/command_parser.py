"""The argument parser of commands: errors of usage name the nearest option or value."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from pulsed.errors import UsageError
from pulsed.suggestions import did_you_mean, nearest

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
            option, given, listed = choice.groups()
            allowed = re.findall(r"[\w-]+", listed)
            otherwise = f"allowed: {', '.join(allowed)}"
            what = f"there is no command {given!r}" if option == "COMMAND" else f"{option}: {given!r} is not allowed"
            message = f"{what}; {did_you_mean(given, allowed, otherwise)}"
        command = self.prog.removeprefix("pulsed").strip()
        message = message.removeprefix("argument ")
        raise self.usage_error(f"{command}: {message}" if command else message, f"See `{self.prog} --help`")

    def flags(self, options: argparse.Namespace) -> dict[str, tuple[str, object]]:
        """Return by configuration key the flag that sets it, and its value: those with a `dest` of `config.KEY`."""
        found: dict[str, tuple[str, object]] = {}
        for action in self._actions:
            if action.dest.startswith(_KEY) and (value := getattr(options, action.dest)) is not None:
                found.setdefault(action.dest.removeprefix(_KEY), (action.option_strings[0], value))
        return found

    def unknown(self, argument: str) -> NoReturn:
        """Raise the error for an argument that is none of this command's."""
        name = argument.partition("=")[0]
        if not name.startswith("-"):
            self.error(f"unexpected argument {name!r}")
        near = nearest(name.lstrip("-"), (text.lstrip("-") for each in self._actions for text in each.option_strings))
        self.error(f"unknown option {name}; did you mean --{near}?" if near else f"unknown option {name}")
