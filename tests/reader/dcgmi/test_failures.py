from __future__ import annotations

import pytest

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
from pulsed.reader.dcgmi.failures import MEANINGS, failure_of
from tests.support.dmon_writer import ERAS, FAILURES, Era

EXPECTED: dict[str, type[SourceError]] = {
    "no_engine": HostEngineUnavailable,
    "bad_argument": WatchRefused,
    "bad_field": FieldRefused,
    "field_not_supported": FieldRefused,
    "needs_root": NotPermitted,
    "module_not_loaded": ProfilingUnavailable,
    "in_use": ProfilingHeld,
    "profiling_held": ProfilingHeld,
    "too_many_groups": TooManyCounters,
    "old_driver": FieldRefused,
    "engine_died": HostEngineUnavailable,
    "no_data": HostEngineUnavailable,
}


def error_of(status: int | None, text: str, fields: tuple[int, ...] = (1001, 155)) -> SourceError:
    return failure_of("dcgmi dmon", status, text.splitlines(), fields)


@pytest.mark.parametrize(
    ("fields", "error"), [((155,), FieldRefused), ((), StreamBroke), ((1001,), ProfilingUnavailable)]
)
def test_a_missing_module_is_that_of_profiling_for_its_fields_only(
    fields: tuple[int, ...], error: type[SourceError]
) -> None:
    found = error_of(223, FAILURES["module_not_loaded"].text, fields)
    assert type(found) is error
    assert ("profiling" in str(found)) is (error is ProfilingUnavailable)


def test_the_table_of_the_stand_in_is_covered() -> None:
    assert EXPECTED.keys() == FAILURES.keys()


@pytest.mark.parametrize("era", ERAS.values(), ids=lambda era: era.name)
@pytest.mark.parametrize("name", EXPECTED)
def test_every_failure_of_every_era_is_understood(era: Era, name: str) -> None:
    failure = FAILURES[name]
    text = failure.text_in(era)
    assert type(error_of(failure.exit_code, text)) is EXPECTED[name]
    # A wrapper script may have swallowed the exit status.
    assert type(error_of(1, text)) is EXPECTED[name]


@pytest.mark.parametrize("result", MEANINGS)
def test_the_exit_status_alone_is_enough(result: int) -> None:
    assert type(error_of(result & 255, "")) is MEANINGS[result].error


def test_an_unknown_field_is_named() -> None:
    error = error_of(255, FAILURES["bad_field"].text)
    assert isinstance(error, FieldRefused)
    assert error.field == 99999
    assert "field 99999" in str(error)


def test_an_error_quotes_dcgmi_and_has_a_remedy() -> None:
    error = error_of(219, FAILURES["profiling_held"].text)
    assert error.reason == "profiling_held"
    assert "Result: -37: The third-party Profiling module" in str(error)
    assert "source exporter" in error.remedy


def test_the_last_words_count() -> None:
    text = FAILURES["profiling_held"].text + FAILURES["engine_died"].text
    assert type(error_of(None, text)) is HostEngineUnavailable


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (0, StreamBroke, "ended with exit code 0"),
        (1, StreamBroke, "ended with exit code 1"),
        (-9, StreamBroke, "was killed by SIGKILL"),
        (-99, StreamBroke, "was killed by signal 99"),
        (137, StreamBroke, "ended with exit code 137"),
        (None, StreamBroke, "closed its output"),
        (126, CommandMissing, "cannot be run"),
        (127, CommandMissing, "cannot be run"),
        (254, WatchRefused, "was refused"),
    ],
)
def test_an_end_without_words(status: int | None, kind: type[SourceError], words: str) -> None:
    error = error_of(status, "")
    assert type(error) is kind
    assert words in str(error)


def test_words_that_nobody_knows_are_quoted() -> None:
    assert "exit code 3: Permission denied / Try again" in str(error_of(3, "\nPermission denied\n\nTry again\n"))


def test_a_wrong_selection_is_no_refused_field() -> None:
    text = "Error: Got error -5 Setting not configured while adding GPU 9 to our entity group.\n"
    error = error_of(251, text)
    assert type(error) is WatchRefused
    assert "GPU 9" in str(error)
