from __future__ import annotations

from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from pulsed.errors import (
    FieldRefused,
    HostEngineUnavailable,
    NotPermitted,
    ProfilingHeld,
    ProfilingUnavailable,
    SourceError,
    TooManyCounters,
)
from pulsed.reader.dcgmi.watch import Watch
from pulsed.translate.fields import is_profiling

Engine = Callable[[tuple[int, ...]], SourceError | None]


def settle(watch: Watch, engine: Engine) -> list[tuple[int, ...]]:
    """Let the watch try at an engine until it is settled or gives up; gives the attempts."""
    attempts = []
    while True:
        attempts.append(watch.attempt())
        error = engine(watch.attempt())
        if error is None:
            watch.accept()
            if watch.settled:
                return attempts
        elif not watch.refuse(error):
            return attempts


def refusing(fields: Iterable[int], error: SourceError) -> Engine:
    return lambda asked: error if set(asked) & set(fields) else None


def knowing(*known: int) -> Engine:
    """An engine that names the first field that it does not know."""

    def engine(asked: tuple[int, ...]) -> SourceError | None:
        unknown = [field for field in asked if field not in known]
        return FieldRefused("no", field=unknown[0]) if unknown else None

    return engine


def test_what_is_not_refused_is_one_attempt() -> None:
    watch = Watch([155, 1001, 155])
    assert settle(watch, lambda asked: None) == [(155, 1001)]
    assert watch.lost == {}


def test_a_field_that_is_named_is_left_out_alone() -> None:
    watch = Watch([155, 9999, 1001, 8888])
    assert settle(watch, knowing(155, 1001))[-1] == (155, 1001)
    assert watch.lost == {"field_refused": (9999, 8888)}


def test_without_profiling_the_plain_fields_go_on_after_two_attempts() -> None:
    for error in (ProfilingHeld("held"), ProfilingUnavailable("none")):
        watch = Watch([1001, 155, 1002, 150])
        assert settle(watch, lambda asked, e=error: e if any(map(is_profiling, asked)) else None) == [  # type: ignore[misc]
            (1001, 155, 1002, 150),
            (155, 150),
        ]
        assert watch.lost == {error.reason: (1001, 1002)}
        assert watch.lost_profiling == (1001, 1002)
        assert watch.why == {error.reason: error.args[0]}


def test_rights_that_lack_may_be_about_profiling_or_not() -> None:
    error = NotPermitted("root")
    watch = Watch([1001, 155, 1002, 150])
    attempts = settle(watch, lambda asked: error if any(map(is_profiling, asked)) else None)
    assert attempts == [(1001, 155, 1002, 150), (155, 150), (1001, 155, 1002, 150), (155, 150)]
    assert watch.lost == {"not_permitted": (1001, 1002)}

    watch = Watch([1001, 155, 1002, 150])
    assert settle(watch, refusing([150], error))[-1] == (1001, 155, 1002)
    assert watch.lost == {"not_permitted": (150,)}
    assert watch.lost_profiling == ()


def test_too_many_counters_keep_the_more_important_ones() -> None:
    def engine(asked: tuple[int, ...]) -> SourceError | None:
        return TooManyCounters("many") if len([f for f in asked if is_profiling(f)]) > 3 else None

    watch = Watch([1001, 155, *range(1002, 1010)])
    settle(watch, engine)
    assert watch.attempt() == (1001, 155, 1002, 1003)
    assert watch.lost == {"profiling_multi_pass": tuple(range(1004, 1010))}
    assert watch.lost_profiling == ()


def test_other_errors_change_nothing() -> None:
    watch = Watch([155, 1001])
    assert not watch.refuse(HostEngineUnavailable("away"))
    assert watch.attempt() == (155, 1001)


def test_nothing_left_is_told() -> None:
    watch = Watch([155, 150])
    error = FieldRefused("no")
    settle(watch, lambda asked: error)
    assert watch.attempt() == ()
    assert watch.settled
    watch.reset()
    assert watch.attempt() == (155, 150)
    assert watch.lost == {}


def test_lost_profiling_comes_back_beside_what_runs() -> None:
    watch = Watch([1001, 155])
    settle(watch, refusing([1001], ProfilingHeld("held")))
    watch.restore(watch.lost_profiling)
    assert not watch.settled
    assert settle(watch, lambda asked: None) == [(1001, 155)]
    assert watch.lost == {}


def test_what_ran_may_be_refused_at_the_next_start() -> None:
    watch = Watch([1001, 155])
    settle(watch, lambda asked: None)
    assert settle(watch, refusing([1001], ProfilingHeld("held"))) == [(1001, 155), (155,)]
    assert watch.lost == {"profiling_held": (1001,)}


FIELDS = st.lists(st.one_of(st.integers(1, 500), st.integers(1001, 1050)), min_size=1, max_size=40, unique=True)


@given(FIELDS, st.data())
def test_exactly_the_culprits_are_lost(fields: list[int], data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.sampled_from(fields)))
    watch = Watch(fields)
    attempts = settle(watch, refusing(bad, FieldRefused("no")))
    assert watch.attempt() == tuple(field for field in fields if field not in bad)
    assert set(watch.lost.get("field_refused", ())) == bad
    assert len(attempts) <= 3 * len(fields) + 2


@given(FIELDS, st.data())
def test_an_engine_without_reason_is_given_up_soon(fields: list[int], data: st.DataObject) -> None:
    errors = st.sampled_from([FieldRefused("no"), ProfilingHeld("held"), NotPermitted("root"), TooManyCounters("many")])
    watch = Watch(fields)
    answers = [data.draw(st.none() | errors) for _ in range(20)]

    def engine(asked: tuple[int, ...]) -> SourceError | None:
        return answers.pop() if answers else FieldRefused("no", field=asked[0])

    attempts = settle(watch, engine)
    assert len(attempts) <= 20 + 3 * len(fields)
    lost = [field for ids in watch.lost.values() for field in ids]
    assert sorted([*lost, *watch.attempt()]) == sorted(fields)
