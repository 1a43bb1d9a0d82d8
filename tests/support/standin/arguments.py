"""dcgmi's command line, read as TCLAP reads it, with its complaints.

What TCLAP itself rejects ends with exit code 1 after a `PARSE ERROR` with a short usage; what dcgmi's own checks reject
with 254 after `Error: ...` (dcgmi/NvcmTCLAP.h and CommandLineParser.cpp of DCGM).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PARSE_ERROR = 1
REJECTED = 254


class WrongUsage(Exception):
    """The command line is wrong.

    Attributes:
        text: for stderr.
        status: exit code.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


@dataclass(frozen=True)
class Option:
    """An option of a subcommand.

    Attributes:
        flag: its letter; empty if it has none.
        names: long names; in dcgmi 3.3 `-i` has two.
        value: what the usage calls its value; empty for a switch.
        integer: the value must be a number.
    """

    flag: str
    names: tuple[str, ...]
    value: str = ""
    integer: bool = False

    @property
    def key(self) -> str:
        return self.names[0]

    @property
    def long_id(self) -> str:
        """As complaints name it."""
        name = f"--{self.names[0]}"
        return f"-{self.flag} ({name})" if self.flag else f"({name})"

    @property
    def short_id(self) -> str:
        """As the usage names it."""
        name = f"-{self.flag}" if self.flag else f"--{self.names[0]}"
        return f"[{name} <{self.value}>]" if self.value else f"[{name}]"


@dataclass(frozen=True)
class Subcommand:
    """A subcommand of dcgmi and its options.

    Attributes:
        one_of: keys of the options of which exactly one must be given.
    """

    name: str
    options: tuple[Option, ...]
    one_of: tuple[str, ...] = ()


_HOST = Option("", ("host",), "IP/FQDN")


def dmon_command(release: tuple[int, ...]) -> Subcommand:
    """The options of `dmon` in a version: `-i` was `--gpu-id`, then both, then `--entity-id`."""
    if release < (3, 3):
        names: tuple[str, ...] = ("gpu-id",)
    elif release < (4, 0):
        names = ("entity-id", "gpu-id")
    else:
        names = ("entity-id",)
    options = (
        Option("i", names, "entityId"),
        Option("g", ("group-id",), "groupId"),
        Option("e", ("field-id",), "fieldId"),
        Option("d", ("delay",), "delay", integer=True),
        Option("c", ("count",), "count", integer=True),
        _HOST,
    )
    return Subcommand("dmon", options, ("field-id",))


def discovery_command(release: tuple[int, ...]) -> Subcommand:
    """The options of `discovery`; `-a` is new in 4.5."""
    options = (
        _HOST,
        Option("l", ("list",)),
        Option("i", ("info",), "flags"),
        Option("c", ("compute-hierarchy",)),
        *((Option("a", ("all",)),) if release >= (4, 5) else ()),
    )
    return Subcommand("discovery", options, ("list", "info", "compute-hierarchy"))


def parsed(command: Subcommand, arguments: Sequence[str]) -> Mapping[str, str]:
    """The options given, by key; a switch has an empty text.

    Raises:
        WrongUsage: as TCLAP would refuse.
    """
    by_word = {f"--{name}": option for option in command.options for name in option.names}
    by_word |= {f"-{option.flag}": option for option in command.options if option.flag}
    given: dict[str, str] = {}
    words = list(arguments)
    while words:
        word = words.pop(0)
        option = by_word.get(word)
        if option is None:
            raise _parse_error(command, word, "Couldn't find match for argument")
        if option.key in given:
            raise _parse_error(command, option.long_id, "Argument already set!")
        if option.key in command.one_of and any(key in given for key in command.one_of):
            raise _parse_error(command, option.long_id, "Mutually exclusive argument already set!")
        given[option.key] = _value(command, option, words)
    if command.one_of and not any(key in given for key in command.one_of):
        raise _parse_error(command, "", f"Required argument missing: {{{' | '.join(command.one_of)}}}")
    return given


def _value(command: Subcommand, option: Option, words: list[str]) -> str:
    if not option.value:
        return ""
    if not words:
        raise _parse_error(command, option.long_id, "Missing a value for this argument!")
    value = words.pop(0)
    if option.integer and not value.lstrip("+-").isdigit():
        raise _parse_error(command, option.long_id, f"Couldn't read argument value from string '{value}'")
    return value


def _parse_error(command: Subcommand, word: str, complaint: str) -> WrongUsage:
    argument = f"Argument: {word}" if word else " "
    usage = f"   dcgmi {command.name} " + " ".join(option.short_id for option in command.options)
    return WrongUsage(
        f"PARSE ERROR: {argument}\n             {complaint}\n\nUsage: \n{usage} \n\n\n"
        f"For complete USAGE and HELP type: \n   dcgmi {command.name} --help\n\n",
        PARSE_ERROR,
    )


def rejected(complaint: str, argument: str = "") -> WrongUsage:
    """What dcgmi's own checks say of options that TCLAP accepts."""
    about = f" for arg {argument}" if argument else ""
    return WrongUsage(
        f"Error: {complaint}{about}.\nAn error occurred trying to parse the command line.\n",
        REJECTED,
    )


@dataclass(frozen=True)
class DmonOptions:
    """What `dcgmi dmon` was asked for.

    Attributes:
        fields: the list after `-e`.
        delay: milliseconds.
        count: ticks; 0 is without end.
    """

    host: str
    entities: str
    group: str
    fields: str
    delay: int
    count: int


def dmon_options(release: tuple[int, ...], arguments: Sequence[str]) -> DmonOptions:
    """Read the arguments of `dcgmi dmon`.

    Raises:
        WrongUsage: TCLAP or dcgmi refuse them.
    """
    command = dmon_command(release)
    given = parsed(command, arguments)
    entity_key = command.options[0].key
    if "group-id" in given and entity_key in given:
        raise rejected(f"Only one of --{entity_key} and --group-id can be provided")
    count, delay = int(given.get("count", "0")), int(given.get("delay", "1000"))
    if count < 0:
        raise rejected("Positive value expected, negative value found", "count")
    if delay < 1:
        raise rejected("Invalid value", "delay")
    if not given["field-id"][:1].isdigit():
        raise rejected("Invalid value", "field-id")
    return DmonOptions(
        given.get("host", "localhost"),
        given.get(entity_key, "-1"),
        given.get("group-id", "-1"),
        given["field-id"],
        delay,
        count,
    )
