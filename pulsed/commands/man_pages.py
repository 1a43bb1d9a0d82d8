"""Man pages of the program and its commands, in roff's man macros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pulsed import __version__
from pulsed.commands.command_reference import CommandReference, OptionReference

FILES = (
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
        yield f"man1/{name}.1", "\n".join(_page(name, command, commands)) + "\n"


def _page(name: str, command: CommandReference, commands: Sequence[CommandReference]) -> Iterator[str]:
    yield f'.TH {_text(name.upper())} 1 "" "pulsed {__version__}" "pulsed"'
    yield from (".SH NAME", f"{_text(name)} \\- {_text(command.help.rstrip('.'))}")
    yield from (".SH SYNOPSIS", _text(command.usage))
    yield from (".SH DESCRIPTION", _text(command.description))
    if not command.name:
        yield ".SH COMMANDS"
        for each in commands[1:]:
            yield from _entry(f"\\fBpulsed\\-{_text(each.name)}\\fR(1)", each.help)
    yield ".SH OPTIONS"
    for option in command.options:
        yield from _entry(_option(option), option.help)
    if not command.name:
        yield ".SH FILES"
        for path, text in FILES:
            yield from _entry(f"\\fI{_text(path)}\\fR", text)
        yield from (".SH ENVIRONMENT", _text("PULSED_<KEY>__<SUBKEY> sets a key of the configuration."))
    yield ".SH EXIT STATUS"
    for code, text in HEALTH_EXIT_CODES if command.name == "health" else EXIT_CODES:
        yield from _entry(code, text)
    if command.name:
        yield from (".SH SEE ALSO", "\\fBpulsed\\fR(1)")


def _option(option: OptionReference) -> str:
    value = f"\\fI{_text(option.value)}\\fR" if option.value else ""
    names = ", ".join(f"\\fB{_text(each)}\\fR" for each in option.names)
    return f"{names} {value}".strip()


def _entry(term: str, text: str) -> Iterator[str]:
    yield from (".TP", term, _text(text) if text else "\\&")


def _text(text: str) -> str:
    """Return a text with the characters escaped that roff interprets."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
