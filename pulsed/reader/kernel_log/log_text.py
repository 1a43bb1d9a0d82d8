"""Parse the text of a kernel log as it grows: lines, entries of `journalctl -o export`, and messages of the driver.

An entry has a line per field and ends with an empty line. A value with line feeds follows its size: text inside a value
never starts an entry. Further lines of a message are indented (dmesg, journalctl), or have its time stamp
(the kernel's syslog interface). The kept part of a text is bounded. This module does no I/O and has no clock.

Forms of the messages: NVIDIA's XID catalogue, the open kernel modules (`kernel_rc.c`, NVSwitch driver), public logs.
Process and channel are optional and have changed between driver versions. On MIG GPUs the instances follow the PCI
address. Messages of other parts of the kernel may quote what looks like one of the driver, such as the name of a
control group: only the beginning of a message counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pulsed.model.clocks import EPOCH, Unix
from pulsed.model.raw_tick import KernelEvent, LinkFault
from pulsed.reader.kernel_log.line_formats import LogLine, Now, parse_line, plausible

MAX_LINE_LENGTH = 8192
"""Bytes of a line that count: as many as a record of /dev/kmsg has (`CONSOLE_EXT_LOG_MAX`)."""

_FIRST = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=")
_NAME = re.compile(rb"[A-Z0-9_]{1,64}")
_SIZE_BYTES = 8
_TIMES = ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")
_KEPT = frozenset({"MESSAGE", "SYSLOG_FACILITY", "_TRANSPORT", *_TIMES})
_MAX_VALUE_LENGTH = 8192
_MICROSECONDS = re.compile(r"[0-9]{1,18}")
_INDENTATION = (b" ", b"\t")
_CONTINUATIONS = (" ", "\t", "-- ")
"""How lines begin that belong to the line before, and journalctl's own."""

_CONTINUATION_BYTES = tuple(each.encode() for each in _CONTINUATIONS)
_KERNEL_TAG = b" kernel:"

_SHOWN = 60


class LogText:
    """Parser of the text of a log.

    Attributes:
        unknown: shape of the first line whose format is not known, while no line has a known one; empty otherwise.
        is_mixed: whether programs also log, in lines that only the tag distinguishes from the kernel's.
    """

    def __init__(self) -> None:
        self.unknown = ""
        self.is_mixed = self._is_tagged = False
        self._last = b""
        self._is_known = False
        self._begun = b""
        self._length = 0
        self._unfinished: LogLine | None = None
        """Message of a driver that has no event so far; its further lines may follow."""
        self._journal = JournalExport()

    def feed(self, data: bytes, now: Now) -> list[KernelEvent]:
        """Return the events of the lines that end in the next part of the text."""
        self._last = b""
        return [event for line, length in self._lines(data) for event in self._events(line, length, now)]

    @property
    def last(self) -> LogLine | None:
        """The last line of the part before; None if it has no time stamp."""
        return parse_line(self._last.decode("utf-8", "replace"))

    def _lines(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the beginning of each complete line, and its length with the line feed."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            line, length, self._begun, self._length = self._begun, self._length + 1, b"", 0
            yield line, length
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._begun += part[: MAX_LINE_LENGTH - len(self._begun)]
        self._length += len(part)

    def _events(self, line: bytes, length: int, now: Now) -> tuple[KernelEvent, ...]:
        if self._unfinished is not None and line.startswith(_INDENTATION):
            return self._add_to_message(self._unfinished, line.decode("utf-8", "replace"), now)
        unfinished, self._unfinished = self._unfinished, None
        if self._journal.has(line):
            self._set_known()
            entry = self._journal.add(line, length, now)
            event = parse_message(*entry) if entry else None
            return () if event is None else (event,)
        self._last = line
        if self._is_tagged and _KERNEL_TAG not in line and line and not line.startswith(_CONTINUATION_BYTES):
            self.is_mixed = True
        if self._is_known and not any(name in line for name in DRIVERS):  # nearly all lines end here
            return ()
        text = line.decode("utf-8", "replace")
        parsed = parse_line(text)
        if parsed is not None:
            self._set_known()
            self._is_tagged = self._is_tagged or parsed.is_tagged
            self.is_mixed = self.is_mixed or parsed.is_of_program
            return self._start_message(parsed, unfinished, now)
        if not self._is_known and not self.unknown and text.strip() and not text.startswith(_CONTINUATIONS):
            self.unknown = _shape(text)
        return ()

    def _start_message(self, line: LogLine, unfinished: LogLine | None, now: Now) -> tuple[KernelEvent, ...]:
        """Return the event of a line, or of the message before if the line belongs to it."""
        if not line.message.startswith(_DRIVERS):
            return ()
        events = event_of(line, now)
        if not events and unfinished is not None and _continues(line, unfinished):
            return self._add_to_message(unfinished, line.message, now)
        self._unfinished = None if events else line
        return events

    def _add_to_message(self, message: LogLine, text: str, now: Now) -> tuple[KernelEvent, ...]:
        """Add a line to a message of a driver; return the event that it completes."""
        whole = message._replace(message=f"{message.message}\n{text.strip()}"[:_MAX_MESSAGE_LENGTH])
        events = event_of(whole, now)
        self._unfinished = None if events else whole
        return events

    def _set_known(self) -> None:
        self._is_known, self.unknown = True, ""


def event_of(line: LogLine, now: Now) -> tuple[KernelEvent, ...]:
    """Return the event of a line, if it has one, and a time that is plausible."""
    event = parse_message(line.message, EPOCH)
    time = None if event is None else line.time(now)
    return () if event is None or time is None else (event._replace(time=time),)


def _continues(line: LogLine, message: LogLine) -> bool:
    """Return whether a line may belong to a message: it has the same time stamp and names no device of its own."""
    stamps = [{**each.stamp, "message": ""} for each in (line, message)]
    return stamps[0] == stamps[1] and not _ADDRESS.search(line.message)


def _shape(line: str) -> str:
    """Return the shape of the beginning of a line, without its content: letters are `x`, digits `0`."""
    return re.sub(r"[^\W\d_]", "x", re.sub(r"\d", "0", line[:_SHOWN])) + "…" * (len(line) > _SHOWN)


class JournalExport:
    """The entry that is being read. Only the fields that count are kept."""

    def __init__(self) -> None:
        self._fields: dict[str, str] | None = None
        self._sized = ""
        """Name of the field whose value follows its size."""
        self._value = b""
        self._length = 0

    def has(self, line: bytes) -> bool:
        """Return whether a line belongs to the entry, or begins one."""
        return self._fields is not None or line.startswith(_FIRST)

    def add(self, line: bytes, length: int, now: Now) -> tuple[str, Unix] | None:
        """Add a line of an entry.

        Args:
            line: without its line feed; of a long one, the beginning.
            length: of the whole line with its line feed.

        Returns:
            Message and time, in Unix seconds, if the line ends an entry that the kernel logged.
        """
        if self._fields is None:
            self._fields = {}
        name, separator, value = line.partition(b"=")
        if self._sized:
            self._add_to_value(line, length)
        elif not line:
            fields, self._fields = self._fields, None
            return _kernel_message(fields, now)
        elif not _NAME.fullmatch(name):
            self._fields = None
        elif separator:
            self._set(name.decode(), value)
        else:
            self._sized, self._value, self._length = name.decode(), b"", 0
        return None

    def _add_to_value(self, line: bytes, length: int) -> None:
        self._value = b"%b%b\n" % (self._value, line)
        self._value, self._length = self._value[: _SIZE_BYTES + _MAX_VALUE_LENGTH], self._length + length
        if len(self._value) < _SIZE_BYTES:
            return
        end = _SIZE_BYTES + int.from_bytes(self._value[:_SIZE_BYTES], "little")
        if self._length == end + 1:  # a line feed follows the value
            self._set(self._sized, self._value[_SIZE_BYTES:end])
            self._sized = ""
        elif self._length > end:
            self._sized, self._fields = "", None

    def _set(self, name: str, value: bytes) -> None:
        if self._fields is not None and name in _KEPT:
            self._fields[name] = value.decode("utf-8", "replace")


def _kernel_message(fields: dict[str, str], now: Now) -> tuple[str, Unix] | None:
    """Return message and time of an entry; None if not the kernel logged it, or its time is not plausible.

    No program can set fields whose names begin with `_`. What root writes to /dev/kmsg has another facility.
    """
    if fields.get("_TRANSPORT") != "kernel" or fields.get("SYSLOG_FACILITY", "0") != "0":
        return None
    stamp = next((fields[name] for name in _TIMES if _MICROSECONDS.fullmatch(fields.get(name, ""))), "")
    time = plausible(Unix(int(stamp) / 1e6), now) if stamp else None
    return None if time is None else (fields.get("MESSAGE", ""), time)


BUS_LOSS_XID = 79
"""The XID of a GPU that has fallen off the bus; the driver does not always print it after the plain message."""

DRIVERS = (b"NVRM:", b"nvidia-nvswitch")
"""How the messages of NVIDIA's drivers begin."""

_DRIVERS = tuple(name.decode() for name in DRIVERS)
_MAX_TEXT_LENGTH = 500
_MAX_MESSAGE_LENGTH = 1000
_PCI = r"(?:PCI:)?(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)"
_INSTANCES = r"(?: GPU-I:\d{1,4})?(?: GPU-CI:\d{1,4})?"
_CODE = r"(?P<code>[0-9]{1,6})(?![0-9])"
_XID = re.compile(rf"NVRM: Xid \({_PCI}{_INSTANCES}\): {_CODE}(?P<rest>.*)", re.DOTALL)
_SXID = re.compile(rf"nvidia-nvswitch[0-9]{{0,4}}: SXid \({_PCI}\): {_CODE}(?P<rest>.*)", re.DOTALL)
_BUS_LOSS = re.compile(rf"NVRM: [^:]{{0,40}}?\b{_PCI}\b.{{0,120}}?fallen off the bus", re.DOTALL)
_NOT_STARTED = re.compile(
    r"RmInitAdapter failed|The NVIDIA probe routine failed|GspRmAlloc failed|NV_ERR_RESET_REQUIRED"
)
_ADDRESS = re.compile(rf"\b{_PCI}\b")
_PROCESS = re.compile(r",\s*pid='?(?P<pid>[^,']*)'?(?:,\s*name=(?P<name>[^,]*))?")
_PID = re.compile(r"[0-9]{1,10}")
_FATAL = re.compile(r",\s*(?P<non>Non-)?fatal\b", re.IGNORECASE)
_LINK_FAULT = re.compile(
    r"\b(?P<unit>[A-Z][A-Z0-9_]{1,40})\s{1,9}(?P<fatal>Fatal|Non-?fatal)\s{1,9}XC ?[0-9]{1,3}\s{1,9}"
    r"i ?(?P<injected>[0-9]{1,3})\s{1,9}Link\s{1,9}(?P<link>-?[0-9]{1,4})\b"
    r"(?:\s{0,9}[(\[]0x(?P<info>[0-9A-Fa-f]{1,8})\b)?"
)
"""The XIDs of NVLink 5; drivers before 575 have a space after `XC` and `i`, and other brackets."""
_PLACE = re.compile(
    r"\bGPC ?(?P<GPC>[0-9]{1,3})\b(?:,? TPC ?(?P<TPC>[0-9]{1,3})\b(?:,? SM ?(?P<SM>[0-9]{1,3})\b)?)?"
    r"(?:[ ,]{1,3}(?P<client>GPCCLIENT_[A-Z0-9_]{1,30}))?"
)
"""`(GPC 3, TPC 5, SM 1)` of XID 13, `GPC3 GPCCLIENT_T1_0` of XID 31."""

_CAUSE = re.compile(r"\bcaused by previous Xid (?P<code>[0-9]{1,6})\b", re.IGNORECASE)

_RECOVERY = re.compile(
    r"\brecovery action changed from 0x[0-9A-Fa-f]{1,8}\s{1,9}\([^)]{0,60}\)\s{1,9}to 0x(?P<action>[0-9A-Fa-f]{1,8})\b"
)
"""XID 154. The numbers are NVML's; the names differ: `Node Reboot Required` of driver 595 is `OS Reboot` of 610."""


def parse_message(message: str, time: Unix) -> KernelEvent | None:
    """Parse one kernel message; return None for messages that report no fault of a GPU or NVSwitch.

    Args:
        message: text of the message, without priority and time.
        time: when it was logged, in Unix seconds.
    """
    if not message.startswith(_DRIVERS):  # nearly all messages end here
        return None
    message = message[:_MAX_MESSAGE_LENGTH]
    if match := _XID.match(message):
        pid, name = _process(match["rest"])
        fault, cause = _link_fault(match["rest"]), _CAUSE.search(match["rest"])
        recovery = _RECOVERY.search(match["rest"])
        return KernelEvent(
            "xid",
            int(match["code"]),
            time,
            _address(match["pci"]),
            pid,
            name,
            text=_text(match),
            fault=fault,
            cause=int(cause["code"]) if cause else None,
            action=int(recovery["action"], 16) if recovery else None,
            place=_place(match["rest"]),
        )
    if match := _SXID.match(message):
        fatal = _FATAL.match(match["rest"])
        is_fatal = None if fatal is None else fatal["non"] is None
        return KernelEvent(
            "sxid", int(match["code"]), time, _address(match["pci"]), is_fatal=is_fatal, text=_text(match)
        )
    if match := _BUS_LOSS.match(message):
        return KernelEvent("bus_loss", BUS_LOSS_XID, time, _address(match["pci"]), text=_clean(match[0]))
    if _NOT_STARTED.search(message):
        match = _ADDRESS.search(message)
        return KernelEvent("not_started", 0, time, _address(match["pci"]) if match else "", text=_clean(message))
    return None


def _process(rest: str) -> tuple[int | None, str]:
    match = _PROCESS.match(rest)
    if match is None:
        return None, ""
    pid, name = match["pid"].strip(), (match["name"] or "").strip()
    number = int(pid) if _PID.fullmatch(pid) else 0
    return number or None, "" if name == "<unknown>" else _clean(name)


def _place(rest: str) -> str:
    """Return where on the chip an exception was; empty if the message names no GPC."""
    match = _PLACE.search(rest)
    if match is None:
        return ""
    return ", ".join(f"{name} {match[name]}" for name in ("GPC", "TPC", "SM") if match[name]) + (
        f", {match['client']}" if match["client"] else ""
    )


def _link_fault(rest: str) -> LinkFault | None:
    match = _LINK_FAULT.search(rest)
    if match is None:
        return None
    link = int(match["link"])
    return LinkFault(
        match["unit"],
        match["fatal"] == "Fatal",
        is_injected=int(match["injected"]) > 0,
        link=link if link >= 0 else None,
        subcode=int(match["info"], 16) >> 20 & 0x3F if match["info"] else None,
    )


def _address(text: str) -> str:
    """Return a PCI address in DCGM's form: eight digits of domain, upper case, with a function."""
    domain, bus, slot = text.split(":")
    return f"{domain.zfill(8)}:{bus}:{slot if '.' in slot else f'{slot}.0'}".upper()


def _text(match: re.Match[str]) -> str:
    return _clean(f"{match['code']}{match['rest']}")


def _clean(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:_MAX_TEXT_LENGTH]
