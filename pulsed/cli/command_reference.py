"""The commands and their options as data, and what is rendered from it: man pages, and completions of three shells."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pulsed import __version__
from pulsed.cli.arguments import CommandParser

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
    rows = [_command("", "", parser)]
    for action in parser.arguments():
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            rows += [_command(name, helps[name], each) for name, each in action.choices.items()]
    return rows


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


def bash(commands: Sequence[CommandReference]) -> str:
    """Return a function for bash-completion, in `completions/pulsed`."""
    names = " ".join(each.name for each in commands if each.name)
    lines = [
        "# Completion of pulsed for bash.",
        "_pulsed() {",
        '    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= each',
        '    for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        f"        case $each in {names.replace(' ', '|')}) command=$each; break ;; esac",
        "    done",
        '    case $command,$before in',
    ]  # fmt: skip
    for command in commands:
        for option in command.options:
            names_with_value = option.names if option.value else ()
            lines += [f"        {command.name},{name}) {_bash_values(option)}; return ;;" for name in names_with_value]
    lines += ["    esac", "    case $command in"]
    for command in commands:
        words = " ".join(name for option in command.options for name in option.names)
        if not command.name:
            words = f"{names} {words}"
        files = any(not option.names and option.is_path for option in command.options)
        also = ' $(compgen -f -- "$word")' if files else ""
        lines.append(f'        "{command.name}") COMPREPLY=($(compgen -W "{words}" -- "$word"){also}) ;;')
    return "\n".join([*lines, "    esac", "}", "complete -o filenames -F _pulsed pulsed"]) + "\n"


def _bash_values(option: OptionReference) -> str:
    if option.choices:
        return f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$word"))'
    return 'COMPREPLY=($(compgen -f -- "$word"))' if option.is_path else "COMPREPLY=()"


def zsh(commands: Sequence[CommandReference]) -> str:
    """Return a function for zsh, in `_pulsed` of a folder of `fpath`."""
    lines = ["#compdef pulsed", "# Completion of pulsed for zsh.", "local -a commands", "commands=("]
    lines += [f"    {shlex.quote(f'{each.name}:{each.help}')}" for each in commands if each.name]
    lines += [")", "_arguments -C \\"]
    lines += [f"    {spec} \\" for option in commands[0].options for spec in _zsh_specs(option)]
    lines += ["    '1:command:->command' '*::argument:->arguments'", "case $state in"]
    lines += ["    command) _describe command commands ;;", "    arguments) case $words[1] in"]
    for command in commands[1:]:
        specs = " ".join(spec for option in command.options for spec in _zsh_specs(option))
        lines.append(f"        {command.name}) _arguments {specs} ;;")
    return "\n".join([*lines, "    esac ;;", "esac"]) + "\n"


def _zsh_specs(option: OptionReference) -> Iterator[str]:
    action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.is_path else " "
    value = f":{option.value.lower()}:{action}" if option.value else ""
    text = option.help.translate({ord("["): "(", ord("]"): ")", ord(":"): "\\:"})
    if not option.names:
        yield shlex.quote(f"*{value}")
    for name in option.names:
        yield shlex.quote(f"*{name}[{text}]{value}")


def fish(commands: Sequence[CommandReference]) -> str:
    """Return the completions for fish, in `pulsed.fish`."""
    names = " ".join(each.name for each in commands if each.name)
    lines = ["# Completion of pulsed for fish.", "complete -c pulsed -f"]
    none = f"not __fish_seen_subcommand_from {names}"
    lines += [f"complete -c pulsed -n {_fish(none)} -a {each.name} -d {_fish(each.help)}" for each in commands[1:]]
    for command in commands:
        condition = _fish(f"__fish_seen_subcommand_from {command.name}" if command.name else none)
        for option in command.options:
            lines += [f"complete -c pulsed -n {condition} {words}" for words in _fish_words(option)]
    return "\n".join(lines) + "\n"


def _fish_words(option: OptionReference) -> Iterator[str]:
    value = " -x" if option.value else ""
    if option.choices:
        value = f" -x -a {_fish(' '.join(option.choices))}"
    elif option.is_path:
        value = " -r -F"
    if not option.names:
        if option.is_path:
            yield "-F"
        return
    words = " ".join(
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" if len(name) == 2 else f"-o {name[1:]}"
        for name in option.names
    )
    yield f"{words}{value} -d {_fish(option.help)}"


def _fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


COMPLETIONS: Mapping[str, Callable[[Sequence[CommandReference]], str]] = {
    "bash/pulsed": bash,
    "zsh/_pulsed": zsh,
    "fish/pulsed.fish": fish,
}
"""Path below the folder of completions, and what renders it."""


MAN_FILES = (
    ("/etc/pulsed/config.yaml", "The configuration of the service. It is read again when it changes."),
    ("/etc/default/pulsed", "Flags and environment of the service."),
    ("/var/lib/pulsed", "State: latched health, absent GPUs, accounts of jobs."),
    ("/opt/pulsed/share", "In a deb or an rpm: scripts for Slurm and health checks, rules, dashboards, drop-ins."),
)
EXIT_CODES = (("0", "Success."), ("1", "An error at run time."), ("2", "Wrong usage or configuration."))
HEALTH_EXIT_CODES = (
    ("0", "Every GPU is ok."),
    ("1", "A GPU is warn or hot."),
    ("2", "A GPU is crit."),
    ("3", "Unknown, or wrong usage."),
)


def man_pages(commands: Sequence[CommandReference]) -> Iterator[tuple[str, str]]:
    """Yield for each command the path below the folder of man pages, and the text."""
    for command in commands:
        name = f"pulsed-{command.name}" if command.name else "pulsed"
        yield f"man1/{name}.1", "\n".join(_man_page(name, command, commands)) + "\n"


def _man_page(name: str, command: CommandReference, commands: Sequence[CommandReference]) -> Iterator[str]:
    yield f'.TH {_roff(name.upper())} 1 "" "pulsed {__version__}" "pulsed"'
    yield from (".SH NAME", f"{_roff(name)} \\- {_roff(command.help.rstrip('.'))}")
    yield from (".SH SYNOPSIS", _roff(command.usage))
    yield from (".SH DESCRIPTION", _roff(command.description))
    if not command.name:
        yield ".SH COMMANDS"
        for each in commands[1:]:
            yield from _man_entry(f"\\fBpulsed\\-{_roff(each.name)}\\fR(1)", each.help)
    yield ".SH OPTIONS"
    for option in command.options:
        yield from _man_entry(_man_option(option), option.help)
    if not command.name:
        yield ".SH FILES"
        for path, text in MAN_FILES:
            yield from _man_entry(f"\\fI{_roff(path)}\\fR", text)
        yield from (".SH ENVIRONMENT", _roff("PULSED_<KEY>__<SUBKEY> sets a key of the configuration."))
    yield ".SH EXIT STATUS"
    for code, text in HEALTH_EXIT_CODES if command.name == "health" else EXIT_CODES:
        yield from _man_entry(code, text)
    if command.name:
        yield from (".SH SEE ALSO", "\\fBpulsed\\fR(1)")


def _man_option(option: OptionReference) -> str:
    value = f"\\fI{_roff(option.value)}\\fR" if option.value else ""
    names = ", ".join(f"\\fB{_roff(each)}\\fR" for each in option.names)
    return f"{names} {value}".strip()


def _man_entry(term: str, text: str) -> Iterator[str]:
    yield from (".TP", term, _roff(text) if text else "\\&")


def _roff(text: str) -> str:
    """Return a text with the characters escaped that roff interprets."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
