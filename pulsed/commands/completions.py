"""Completion of the command line in bash, zsh and fish."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from pulsed.commands.command_reference import CommandReference, OptionReference


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
