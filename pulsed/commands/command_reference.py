"""The commands and their options as data, from which man pages and completions are rendered."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from pulsed.commands.arguments import CommandParser

PATHS = ("FILE", "DIR")
"""Names of values that are paths."""


@dataclass(frozen=True, slots=True)
class OptionReference:
    """An option or a positional argument.

    Attributes:
        names: `-h`, `--help`; of a positional argument none.
        value: the name of its value, empty for a flag.
        choices: the allowed values, if they are few.
        help: its sentence.
    """

    names: tuple[str, ...]
    value: str
    choices: tuple[str, ...]
    help: str

    @property
    def is_path(self) -> bool:
        """Whether the value is a file or a folder."""
        return self.value in PATHS


@dataclass(frozen=True, slots=True)
class CommandReference:
    """A command, or with an empty name the program itself.

    Attributes:
        name: as in `pulsed NAME`.
        help: its line in the list of commands.
        description: the paragraph of its help, its line if it has none.
        usage: the line of its usage, without `usage:`.
        options: in the order of the help.
    """

    name: str
    help: str
    description: str
    usage: str
    options: tuple[OptionReference, ...]


def commands(parser: CommandParser) -> list[CommandReference]:
    """Return the program itself and its commands, from the parser with the options of all."""
    found = [_command("", "", parser)]
    for action in parser.arguments():
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            found += [_command(name, helps[name], each) for name, each in action.choices.items()]
    return found


def _command(name: str, help_line: str, parser: CommandParser) -> CommandReference:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    line = help_line or (parser.description or "")
    options = tuple(
        _option(action, parser) for action in parser.arguments() if not isinstance(action, argparse._SubParsersAction)
    )
    return CommandReference(name, line, parser.description or f"{line[:1].upper()}{line[1:]}.", usage, options)


def _option(action: argparse.Action, parser: CommandParser) -> OptionReference:
    takes_value = action.nargs != 0
    value = action.metavar if isinstance(action.metavar, str) else action.dest.rpartition(".")[2].upper()
    choices = tuple(map(str, action.choices or ()))
    return OptionReference(tuple(action.option_strings), value if takes_value else "", choices, _help(action, parser))


def _help(action: argparse.Action, parser: CommandParser) -> str:
    text = (action.help or "") % {"prog": parser.prog, "default": action.default}
    if action.choices and action.option_strings:
        text += ("; " if text else "") + ", ".join(map(str, action.choices))
    return text
