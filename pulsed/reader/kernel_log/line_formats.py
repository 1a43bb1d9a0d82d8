"""Parse lines of kernel logs: records of /dev/kmsg, and what dmesg, journalctl, rsyslog and syslog-ng print.

A message counts only if the kernel logged it. Every user can log a text that looks like a message of the driver, so
the facility (records, RFC 5424) or the tag (other syslog lines) must be the kernel's. A tag proves nothing where
programs also log: any user chooses it. This module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

from pulsed.model.clocks import Unix

EXPECTED = (
    "records of /dev/kmsg, lines of dmesg, of `journalctl -k` with -o short, short-iso or export, or of syslog with "
    "traditional or RFC 3339 time stamps"
)

FUTURE_SECONDS = 60.0
"""Time stamps that are later than now by more are not plausible: another clock, time zone or boot."""

_OLDEST_YEARS = 8
"""Years covered by time stamps without a year: February 29 comes every four, or eight, years."""


class Now(NamedTuple):
    """The present moment: in Unix seconds, and in seconds since boot."""

    wall: Unix
    uptime: float


class LogLine(NamedTuple):
    """A line of a known format.

    Attributes:
        message: of the kernel, without priority and time; empty if another program logged it.
        stamp: the parts of the time stamp.
        format: of the line.
    """

    message: str
    stamp: Mapping[str, str]
    format: _Format

    @property
    def is_local(self) -> bool:
        """Whether the time stamp has no time zone."""
        return self.format.is_local

    @property
    def is_tagged(self) -> bool:
        """Whether only the tag shows that the kernel logged it."""
        return "kernel" in self.stamp and not self.stamp.get("priority")

    @property
    def is_of_program(self) -> bool:
        """Whether the tag belongs to another program than the kernel."""
        return self.is_tagged and not self.stamp["kernel"]

    def time(self, now: Now) -> Unix | None:
        """Return when it was logged, in Unix seconds, at most now; None if the time stamp is not plausible."""
        try:
            time = self.format.time(self.stamp, now)
        except (ValueError, OverflowError):
            return None
        return plausible(time, now)


class _Format(NamedTuple):
    """A format of lines.

    Attributes:
        pattern: of the whole line, with groups `message` and of the time stamp; `priority`, where there is
            one, has the facility, and `kernel` the tag of the kernel.
        time: returns Unix seconds. Raises `ValueError` if there is no such time.
    """

    pattern: re.Pattern[str]
    time: Callable[[Mapping[str, str], Now], Unix]
    is_local: bool = False


def _of_microseconds(stamp: Mapping[str, str], now: Now) -> Unix:
    return Unix(now.wall - (now.uptime - int(stamp["microseconds"]) / 1e6))


def _of_uptime(stamp: Mapping[str, str], now: Now) -> Unix:
    return Unix(now.wall - (now.uptime - float(stamp["uptime"])))


def _of_ctime(stamp: Mapping[str, str], now: Now) -> Unix:
    return Unix(datetime.strptime(stamp["ctime"], "%a %b %d %H:%M:%S %Y").timestamp())


def _of_date(stamp: Mapping[str, str], now: Now) -> Unix:
    zone = stamp["zone"].replace("Z", "+00:00")
    zone = zone if not zone or ":" in zone else f"{zone[:3]}:{zone[3:]}"
    return Unix(datetime.fromisoformat(f"{stamp['date']}{zone}").timestamp() + float(f"0.{stamp['fraction'] or 0}"))


def _of_month_and_day(stamp: Mapping[str, str], now: Now) -> Unix:
    """Return the newest such moment that is not in the future: the time stamp has neither year nor time zone."""
    year = datetime.fromtimestamp(now.wall).year + 1
    for each in range(year, year - _OLDEST_YEARS - 2, -1):
        try:
            moment = datetime.strptime(f"{each} {stamp['month']} {stamp['clock']}", "%Y %b %d %H:%M:%S")
            times = [moment.replace(fold=fold).timestamp() for fold in (1, 0)]  # the hour that daylight saving repeats
        except (ValueError, OverflowError):
            continue
        for time in times:
            if time <= now.wall + FUTURE_SECONDS:
                return Unix(time)
    raise ValueError(f"{stamp['month']} {stamp['clock']}")


_PRIORITY = r"<(?P<priority>\d{1,5})>"
_CALLER = r"(?:\[ *[CT]\d{1,10}\])?"  # CONFIG_PRINTK_CALLER
_DATE = r"(?P<date>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
_ZONE = r"(?P<zone>Z|[+-]\d\d:?\d\d)"
_TAGGED = r" \S{1,255} (?P<kernel>kernel: ?)?(?P<message>.*)"  # host, tag

_FORMATS = (
    _Format(
        re.compile(
            r"(?P<priority>\d{1,5}),(?P<sequence>\d{1,20}),(?P<microseconds>\d{1,18}),[^;]{0,99};(?P<message>.*)",
            re.DOTALL,
        ),
        _of_microseconds,
    ),
    _Format(
        re.compile(rf"(?:{_PRIORITY})?\[ {{0,12}}(?P<uptime>\d{{1,12}}\.\d{{1,9}})\]{_CALLER} ?(?P<message>.*)"),
        _of_uptime,
    ),
    _Format(  # dmesg -T
        re.compile(
            r"\[(?P<ctime>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]" rf"{_CALLER} ?(?P<message>.*)"
        ),
        _of_ctime,
        is_local=True,
    ),
    _Format(  # dmesg --time-format iso
        re.compile(rf"{_DATE},(?P<fraction>\d{{1,9}}){_ZONE}{_CALLER} (?P<message>.*)"),
        _of_date,
    ),
    _Format(  # rsyslog's RSYSLOG_TraditionalFileFormat, journalctl -o short and short-precise
        re.compile(
            rf"(?:{_PRIORITY})?(?P<month>[A-Z][a-z]{{2}}) (?P<clock>[ \d]\d \d\d:\d\d:\d\d)(?:\.\d{{1,9}})?{_TAGGED}"
        ),
        _of_month_and_day,
        is_local=True,
    ),
    _Format(  # rsyslog's RSYSLOG_FileFormat, journalctl -o short-iso
        re.compile(rf"(?:{_PRIORITY})?{_DATE}(?:\.(?P<fraction>\d{{1,9}}))?{_ZONE}{_TAGGED}"),
        _of_date,
    ),
    _Format(  # RFC 5424, rsyslog's RSYSLOG_SyslogProtocol23Format: version, time, host, tag, process, message id, data
        re.compile(
            rf"{_PRIORITY}1 {_DATE}(?:\.(?P<fraction>\d{{1,9}}))?{_ZONE} \S{{1,255}} "
            r"(?:(?P<kernel>kernel) \S{1,128} \S{1,32} - ?)?(?P<message>.*)"
        ),
        _of_date,
    ),
)

_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")
_PRINTK_TIME = re.compile(rf" ?\[ {{0,12}}\d{{1,12}}\.\d{{1,9}}\]{_CALLER} ?| ")
"""rsyslog's imklog leaves the kernel's own time stamp in the message, unless it is configured to remove it."""


def parse_line(line: str) -> LogLine | None:
    """Parse a line without its line feed; return None if its format is not known."""
    for format in _FORMATS:
        if match := format.pattern.match(line):
            groups = match.groupdict(default="")
            is_kernel = groups.get("kernel", "kernel") and int(groups.get("priority") or 0) >> 3 == 0
            if not is_kernel:
                return LogLine("", groups, format)
            message = groups["message"]
            if "kernel" in groups and (stamp := _PRINTK_TIME.match(message)):
                message = message[stamp.end() :]
            return LogLine(_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), message), groups, format)
    return None


def plausible(time: Unix, now: Now) -> Unix | None:
    """Return a time in Unix seconds, at most now; None if it is before 1970 or in the future."""
    return min(time, now.wall) if 0.0 <= time <= now.wall + FUTURE_SECONDS else None
