"""What the end of a `dcgmi` means: from its exit status and its last words to one of the few errors.

dcgmi exits with the low byte of DCGM's result code. Its texts name the code since 2.4; before, and where a wrapper
script swallows the status, the words must do.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pulsed.die_with_parent import CANNOT_RUN, NOT_FOUND
from pulsed.errors import (
    CommandMissing,
    FieldRefused,
    HostEngineUnavailable,
    NotPermitted,
    ProfilingHeld,
    ProfilingUnavailable,
    SourceError,
    StreamBroke,
    TooManyCounters,
    WatchRefused,
)
from pulsed.reader.dmon.parser import message_of
from pulsed.translate.fields import is_profiling


class Meaning(NamedTuple):
    """The meaning of a result of DCGM for pulsed.

    Attributes:
        what: in one clause; empty where dcgmi's own text is better.
        texts: parts of dcgmi's messages by which it is recognised without its code, separated by `|`.
    """

    error: type[SourceError]
    what: str
    remedy: str
    texts: str


_START_ENGINE = (
    "Start it (systemctl start nvidia-dcgm) or set source.dcgmi.host to where it runs; where only a dcgm-exporter "
    "runs, use the source exporter"
)
_SHARE_ENGINE = (
    "A dcgm-exporter with its own engine, another host engine or a profiler (Nsight, CUPTI) has it: use the source "
    "exporter, or let both share one engine (dcgm-exporter -r localhost:5555)"
)

MEANINGS: Mapping[int, Meaning] = {
    -6: Meaning(FieldRefused, "a field is not supported by this GPU or driver", "", "not supported by this device"),
    -14: Meaning(
        HostEngineUnavailable,
        "the host engine has no data for what is watched",
        "Run dcgmi discovery -l to list its GPUs",
        "No data returned from the hostengine|field group or entity group is empty",
    ),
    -21: Meaning(
        HostEngineUnavailable,
        "the host engine cannot be reached",
        _START_ENGINE,
        "unable to establish a connection|Unable to connect to host engine|Host engine connection invalid"
        "|unable to initialize DCGM",
    ),
    -29: Meaning(
        NotPermitted,
        "the host engine must run as root for some fields",
        "Run nv-hostengine as root or with CAP_SYS_ADMIN",
        "running as root|running as non-root",
    ),
    -33: Meaning(
        ProfilingUnavailable,
        "the host engine has no profiling module for one of these GPUs",
        "Profiling needs a data center or workstation GPU since Volta, and the package with DCGM's proprietary modules",
        "module of DCGM that is not currently loaded",
    ),
    -34: Meaning(ProfilingHeld, "the profiling hardware is in use", _SHARE_ENGINE, "affected resource is in use"),
    -36: Meaning(
        ProfilingUnavailable,
        "this GPU has no profiling counters",
        "Profiling needs a data center or workstation GPU since Volta",
        "Profiling is not supported",
    ),
    -37: Meaning(
        ProfilingHeld,
        "the profiling hardware is held by another process",
        _SHARE_ENGINE,
        "third-party Profiling module",
    ),
    -38: Meaning(
        TooManyCounters,
        "the GPU cannot count this number of profiling fields at once",
        "Watch fewer fields; dcgmi profile -l lists which can be combined",
        "cannot be collected in a single pass",
    ),
    -44: Meaning(
        FieldRefused,
        "a field needs a newer driver",
        "Update the NVIDIA driver, or leave the field out",
        "newer driver version|driver version is insufficient",
    ),
    -54: Meaning(ProfilingHeld, "profiling is paused", "dcgmi profile --resume ends the pause", "paused"),
    -56: Meaning(
        HostEngineUnavailable,
        "the host engine runs without the NVIDIA driver's library",
        "Install the driver, then restart the host engine",
        "NVML is not loaded|NVML doesn't exist",
    ),
    -67: Meaning(
        HostEngineUnavailable,
        "the GPUs are detached from the host engine",
        "They were detached for maintenance; attach them again",
        "detached",
    ),
}
"""By DCGM's result code (dcgm_structs.h; texts of errorString)."""

_INVALID_FIELD = re.compile(r"Got invalid field ID\.? *'(\d{1,9})'")
_USAGE_STATUS = frozenset({254, 255})
_USAGE_TEXTS = (
    "PARSE ERROR",
    "An error occurred trying to parse the command line",
    "Enable to retrieve",
    "Expected a numerical",
    "Got error",
    "Error: Got error",
    "Only one of --",
)


_MODULE_MISSING = -33


def failure_of(
    command: str, status: int | None, lines: Sequence[str], fields: Sequence[int] | None = ()
) -> SourceError:
    """Return the error that an ended `dcgmi` stands for.

    Args:
        command: the command, in words for a person.
        status: its exit status, negative for a signal; None if it closed its output and lives.
        lines: its output other than data, oldest first.
        fields: that a `dmon` was to watch; None if that is not known.
    """
    texts = [text for line in lines if (text := line.strip())]
    words = " / ".join(texts[-3:])
    for line in texts:
        if invalid := _INVALID_FIELD.search(line):
            field = int(invalid[1])
            return FieldRefused(f"{command}: this version of DCGM has no field {field}", field=field)
    meaning = MEANINGS.get(_code_of(status, texts) or 0) or _by_words(texts)
    if meaning is MEANINGS[_MODULE_MISSING] and fields is not None and not any(map(is_profiling, fields)):
        error = FieldRefused if fields else StreamBroke
        return error(f"{command}: it needs a module of DCGM that is not loaded ({words})", "See dcgmi modules -l")
    if meaning is not None:
        quoted = f" ({words})" if words else ""
        return meaning.error(f"{command}: {meaning.what}{quoted}", meaning.remedy)
    if status in (NOT_FOUND, CANNOT_RUN):
        return CommandMissing(f"{command} cannot be run: {words or 'no such program'}", "Set source.dcgmi.path")
    if status in _USAGE_STATUS or any(line.startswith(_USAGE_TEXTS) for line in texts):
        return WatchRefused(f"{command} was refused: {words or f'exit {status}'}", "Check what it is asked to watch")
    if status is None:
        return StreamBroke(f"{command} closed its output")
    ended = f"was killed by {_signal_name(-status)}" if status < 0 else f"ended with exit code {status}"
    return StreamBroke(f"{command} {ended}" + (f": {words}" if words else ""))


def _code_of(status: int | None, texts: Sequence[str]) -> int | None:
    """DCGM's result code: from the last message that has one, or without one from the exit status."""
    for line in reversed(texts):
        message = message_of(line)
        if message is not None and message.code is not None:
            return message.code
    # Results below -100 do not exist; a shell's codes for signals do, from 128 up to 192.
    return status - 256 if status is not None and 156 < status < 254 else None


def _by_words(texts: Sequence[str]) -> Meaning | None:
    for line in reversed(texts):
        for meaning in MEANINGS.values():
            if any(text in line for text in meaning.texts.split("|")):
                return meaning
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
