"""`dcgmi dmon`: one run, by dcgmi/DeviceMonitor.cpp of DCGM 2.2 to 4.6, and the ways in which runs go wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import NoReturn

from tests.support.dmon_writer import ERAS, FAILURES, Failure, header_text
from tests.support.standin.arguments import DmonOptions
from tests.support.standin.board import GPM_ONLY, Row
from tests.support.standin.entities import NoSuchEntity, NoSuchGroup, selected
from tests.support.standin.fields import KnownField, known_fields
from tests.support.standin.home import Home
from tests.support.standin.page import Page
from tests.support.standin.process import STDERR, STDOUT, Process
from tests.support.standin.scenario import GPM_ARCHES, PROFILING, UNPROFILED_ARCHES, Fault, Refusal, Scenario

BAD_PARAMETER = -1
NOT_CONFIGURED = -5

_FIRST_REPEAT, _REPEAT = 15, 14
_POLL = 0.02
_FLOOD_LINES = 4000

_GARBAGE = "2026-01-01 00:00:00.000 ERROR [4711:4712] [[Core]] Got error -21 from the connection\n"
_BINARY = bytes(range(256)) * 4


class Dmon:
    """One run of `dcgmi dmon`, connected to its engine.

    Args:
        nth: how many runs of dmon there were before.
    """

    def __init__(self, home: Home, process: Process, scenario: Scenario, options: DmonOptions, nth: int) -> None:
        self._home = home
        self._process = process
        self._scenario = scenario
        self._options = options
        self._nth = nth
        self._era = ERAS[scenario.era]
        self._fault_since: dict[Fault, float] = {}
        self._held: list[str] = []

    def run(self) -> NoReturn:
        """Do it all and exit."""
        rows = self._rows()
        fields = self._fields()
        header = header_text(self._era, [known.field for known in fields])
        self._process.write(header)
        self._process.stop_on_interrupt()
        self._watch(rows, fields)
        self._loop(header, [row.label for row in rows], fields)
        if self._process.is_stopping:
            self._process.write(self._era.stopped)
        self._process.leave(0)

    def _complain(self, text: str, result: int = BAD_PARAMETER) -> NoReturn:
        """Exit with an error that era A prints to stdout, and later ones to stderr."""
        self._process.fail(text, result, STDOUT if self._era.right else STDERR)

    def _fail(self, failure: Failure) -> NoReturn:
        stream = STDOUT if failure.stream_in(self._era) == "stdout" else STDERR
        self._process.fail(failure.text_in(self._era), failure.result, stream)

    def _rows(self) -> list[Row]:
        group = self._options.group
        old = self._era.right
        try:
            return selected(self._scenario, self._options.entities, group)
        except NoSuchEntity as error:
            self._complain(
                "Error: Got error -1 Bad parameter passed to function while adding "
                f"{error.label.replace('-', '_')} to our entity group.\n"
            )
        except NoSuchGroup:
            number = "" if self._scenario.release >= (4, 0) else f" {group}"
            text = f"Enable to retrieve information about group{number}. Error: -5: The Group is not found\n"
            if old:
                text = f"Error: Unable to retrieve information about group {group}. Return: -5 The Group is not found\n"
            self._complain(text, NOT_CONFIGURED)
        except ValueError:
            text = f"Expected a numerical groupId. Instead, got '{group}'\n"
            self._complain(f"Error: Expected a numerical groupId. Instead got '{group}'\n" if old else text)

    def _fields(self) -> list[KnownField]:
        numbers = self._field_ids()
        known = {field.field.id: field for field in known_fields(self._scenario.release, frozenset(numbers))}
        for number in numbers:
            if number not in known or number in self._scenario.missing_fields:
                self._complain(
                    f"Error: Got invalid field ID. '{number}'. See dcgm_fields.h for a list of valid field IDs.\n"
                )
        return [known[number] for number in numbers]

    def _field_ids(self) -> list[int]:
        numbers = []
        for token in filter(None, self._options.fields.split(",")):
            digits = token[: len(token) - len(token.lstrip("0123456789"))]  # as atoi reads them
            if not digits:
                self._complain(f"Error: Expected numerical fieldId. Got '{token}' instead.\n")
            numbers.append(int(digits) & 0xFFFF)
        return numbers

    def _watch(self, rows: Sequence[Row], fields: Sequence[KnownField]) -> None:
        asked = {known.field.id for known in fields}
        for refusal in self._scenario.refusals:
            if self._applies(refusal) and (not refusal.fields or asked.intersection(refusal.fields)):
                self._fail(FAILURES[refusal.failure])
        profiling = asked.intersection(PROFILING)
        arches = {row.gpu.arch for row in rows}
        if profiling and arches.intersection(UNPROFILED_ARCHES):
            self._fail(FAILURES["module_not_loaded"])
        if profiling.intersection(GPM_ONLY) and arches.difference(GPM_ARCHES):
            self._fail(FAILURES["field_not_supported"])

    def _applies(self, trouble: Refusal | Fault) -> bool:
        return (not trouble.starts or self._nth < trouble.starts) and time.time() < trouble.until

    def _loop(self, header: str, labels: Sequence[str], fields: Sequence[KnownField]) -> None:
        process, options = self._process, self._options
        page = Page(self._scenario, labels, fields)
        self._home.changed()
        tick, next_header = 0, _FIRST_REPEAT
        while not process.is_stopping:
            if self._home.changed():
                self._follow(self._home.read())
                page = Page(self._scenario, labels, fields)
            now = time.time()
            text = self._spoil(page.tick(now, tick), tick)
            if text is None:
                page = Page(self._scenario, labels, fields)
                continue
            if self._scenario.log_ticks:
                self._home.log_tick(now, options.delay)
            self._hand_over(text)
            tick += 1
            if tick == options.count:
                break
            # Until 2.3 usleep() slept, which a signal ends; sleep_for() goes on.
            process.sleep(options.delay / 1000, until_signal=self._era.right)
            if tick == next_header:
                self._hand_over(("\n" if self._era.right else "") + header, is_tick=False)
                next_header += _REPEAT
        self._write_held()

    def _follow(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._process.ignore(scenario.ignored_signals)
        if not scenario.engine:
            self._fail(FAILURES["engine_died"])

    def _hand_over(self, text: str, is_tick: bool = True) -> None:
        if self._scenario.burst <= 1 and not self._held:
            self._process.write(text)
            return
        self._held.append(text)
        if is_tick and len(self._held) >= self._scenario.burst:
            self._write_held()

    def _write_held(self) -> None:
        self._process.write("".join(self._held))
        self._held.clear()

    def _spoil(self, text: str, tick: int) -> str | None:
        """The tick, or what a fault makes of it; None after a pause, when values must be read anew."""
        fault = self._fault(tick)
        if fault is None:
            if not text:
                self._fail(FAILURES["no_data"])
            return text
        process = self._process
        match fault.kind:
            case "engine_died" | "no_data":
                self._fail(FAILURES[fault.kind])
            case "half_row":
                process.write(text[: len(text) - len(text.splitlines()[-1]) // 2 - 1])
                process.leave(fault.status)
            case "exit":
                process.leave(fault.status)
            case "crash":
                _crash()
            case "close":
                os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
                return text
            case "garbage" | "binary":
                process.write(_GARBAGE if fault.kind == "garbage" else _BINARY)
                process.sleep(self._options.delay / 1000)
            case "stderr_flood":
                if tick == fault.after:
                    process.write(_GARBAGE * _FLOOD_LINES, STDERR)
                return text
            case "hang":
                while self._fault(tick) == fault and not self._home.changed():
                    time.sleep(_POLL)
                self._follow(self._home.read())
        return None

    def _fault(self, tick: int) -> Fault | None:
        for fault in self._scenario.faults:
            if tick < fault.after or not self._applies(fault):
                continue
            since = self._fault_since.setdefault(fault, time.monotonic())
            if time.monotonic() - since < fault.lasts:
                return fault
        return None


def _crash() -> NoReturn:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("still alive")
