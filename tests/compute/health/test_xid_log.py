"""XIDs of one GPU as events."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pulsed.compute.health.xid_log import BURST_GAP, MAX_CODES, REPEAT_WINDOW, RepeatedXid, XidLog, XidRecord
from pulsed.compute.health.xids import FOLLOWER
from pulsed.model.clocks import GpuSeconds, Unix
from pulsed.model.raw_tick import KernelEvent
from pulsed.model.tick import Extras


def started() -> XidLog:
    log = XidLog()
    log.update(0.0, None, (), GpuSeconds(0.0))
    return log


def test_occurrences_closer_than_the_gap_are_one_burst() -> None:
    log = started()
    gauge = 0.0
    for now, code in ((10.0, 31.0), (20.0, 0.0), (10.0 + BURST_GAP - 1, 31.0), (300.0, 0.0), (1000.0, 31.0)):
        gauge = code
        log.update(gauge, None, ("job",), GpuSeconds(now))
    record = log.records[31]
    assert record.count == 3
    assert record.bursts[0] == (10.0, ("job",))
    assert [when for when, _ in record.bursts] == [10.0, 1000.0]
    assert (record.last, record.dated, record.cleared) == (1000.0, True, False)


def test_a_code_that_comes_back_five_times_a_day_is_repeated() -> None:
    log = started()
    for number in range(5):
        assert log.repeated(GpuSeconds(number * 1000.0)) is None
        log.update(13.0, None, (), GpuSeconds(number * 1000.0 + 1))
        log.update(0.0, None, (), GpuSeconds(number * 1000.0 + 2))
    assert log.repeated(GpuSeconds(5000.0)) == RepeatedXid(13)
    assert log.repeated(GpuSeconds(REPEAT_WINDOW)) == RepeatedXid(13)
    assert log.repeated(GpuSeconds(REPEAT_WINDOW + 1.0)) is None


def test_31_is_repeated_after_three_bursts_of_two_programs() -> None:
    for jobs, expected in ((("a", "a", "a"), None), (("a", "b", "b"), RepeatedXid(31)), (("a", "b"), None)):
        log = started()
        for number, job in enumerate(jobs):
            log.update(31.0, None, (job,), GpuSeconds(number * 1000.0 + 1))
            log.update(0.0, None, (), GpuSeconds(number * 1000.0 + 2))
        assert log.repeated(GpuSeconds(5000.0)) == expected


def test_counts_and_totals_date_what_grows_and_keep_what_was_there() -> None:
    log = XidLog()
    assert (
        list(
            log.update(
                None, Extras(xid_counts=((13, 2.0), (48, 0.0)), xid_totals=((94, 1.0), (95, 0.0))), (), GpuSeconds(0.0)
            )
        )
        == []
    )
    assert {code: record.dated for code, record in log.records.items()} == {13: False, 94: False}
    later = Extras(xid_counts=((13, 2.0), (48, 1.0)), xid_totals=((94, 1.0), (95, 1.0), (63, 1.0)))
    assert sorted(log.update(None, later, (), GpuSeconds(10.0))) == [48, 63, 95]
    assert list(log.update(None, later, (), GpuSeconds(20.0))) == []


def test_the_same_code_of_two_inputs_is_one_event() -> None:
    log = started()
    assert list(log.update(13.0, Extras(xid_counts=()), (), GpuSeconds(1000.0))) == [13]
    assert list(log.update(13.0, Extras(xid_counts=((13, 1.0),)), (), GpuSeconds(1005.0))) == []
    assert log.records[13].count == 1
    assert list(log.update(13.0, Extras(xid_counts=()), (), GpuSeconds(1010.0))) == []
    assert list(log.update(13.0, Extras(xid_counts=((13, 1.0),)), (), GpuSeconds(1000.0 + BURST_GAP))) == [13]


def test_a_reset_clears_only_what_happened_before_it() -> None:
    log = started()
    log.update(13.0, None, (), GpuSeconds(10.0))
    log.update(48.0, None, (), GpuSeconds(20.0))
    log.clear(GpuSeconds(20.0))
    assert {code: record.cleared for code, record in log.records.items()} == {13: True, 48: False}


def test_messages_of_the_kernel_have_their_own_time() -> None:
    log = started()
    old, new = (KernelEvent("xid", code, Unix(time), "00000000:01:00.0") for code, time in ((79, 70.0), (13, 95.0)))
    assert list(log.add_kernel_events([old, new], (), now=GpuSeconds(20.0), time=Unix(100.0))) == [13]
    assert log.records[13].last == 15.0
    assert list(log.update(79.0, None, (), GpuSeconds(21.0))) == [79]


@pytest.mark.parametrize(("moment", "happened"), [(0.0, [79]), (0.5, [79]), (-0.001, []), (-9.0, [])])
def test_messages_count_from_the_first_sample_on(moment: float, happened: list[int]) -> None:
    event = KernelEvent("xid", 79, Unix(100.0 + moment), "00000000:01:00.0")
    assert list(started().add_kernel_events([event], (), now=GpuSeconds(20.0), time=Unix(120.0))) == happened


@pytest.mark.parametrize(("moment", "action"), [(320.0, 1), (319.9, None)])
def test_details_of_a_message_from_before_the_newest_burst_do_not_count(moment: float, action: int | None) -> None:
    record = XidRecord(last=GpuSeconds(320.0 + BURST_GAP), dated=True)
    record.describe(KernelEvent("xid", 154, Unix(0.0), "00000000:01:00.0", action=1), GpuSeconds(moment))
    assert record.action == action


def test_45_replaces_no_other_code() -> None:
    log = started()
    log.update(45.0, None, (), GpuSeconds(1.0))
    assert log.last == 45
    log.update(13.0, None, (), GpuSeconds(2.0))
    log.update(45.0, None, (), GpuSeconds(3.0))
    assert log.last == 13


def test_a_code_of_a_source_without_any_before_is_new() -> None:
    log = XidLog()
    log.record_none()
    assert list(log.update(1.0, None, (), GpuSeconds(1.0))) == [1], "of any code"
    assert list(log.update(1.0, None, (), GpuSeconds(2.0))) == []
    log.restart_gauge()
    assert list(log.update(1.0, None, (), GpuSeconds(500.0))) == [1]


def test_no_more_than_64_bursts_are_remembered() -> None:
    log = started()
    for number in range(70):
        log.update(13.0, None, (), GpuSeconds(number * 200.0 + 1))
        log.update(0.0, None, (), GpuSeconds(number * 200.0 + 2))
    record = log.records[13]
    assert (record.count, len(record.bursts), record.bursts[-1][0]) == (70, 64, 69 * 200.0 + 1)


def test_times_of_bursts_and_repeats() -> None:
    assert (BURST_GAP, REPEAT_WINDOW) == (180.0, 86400.0)
    log = started()
    for now in (1.0, 181.0, 300.0, 480.0):
        log.update(13.0, None, (), GpuSeconds(now))
        log.update(0.0, None, (), GpuSeconds(now + 0.5))
    assert [when for when, _ in log.records[13].bursts] == [1.0, 181.0, 480.0]


@pytest.mark.parametrize("is_source_new", [True, False])
def test_a_code_of_a_source_with_other_fields_is_of_unknown_age(is_source_new: bool) -> None:
    log = XidLog()
    log.record_none()
    if is_source_new:
        log.forget_source()
    assert list(log.update(79.0, None, (), GpuSeconds(5.0))) == ([] if is_source_new else [79])
    record = log.records[79]
    assert (record.last, record.dated, record.cleared, record.count) == (
        5.0,
        not is_source_new,
        False,
        not is_source_new,
    )


def test_counts_of_a_source_without_any_before_are_events() -> None:
    log = XidLog()
    assert list(log.update(None, Extras(xid_counts=((13, 1.0),), xid_totals=((94, 3.0),)), (), GpuSeconds(1.0))) == []
    log.record_none()
    more = Extras(xid_counts=((13, 1.0), (48, 1.0)), xid_totals=((94, 3.0), (95, 1.0)))
    assert sorted(log.update(None, more, (), GpuSeconds(3.0))) == [48, 95]
    first = XidLog()
    first.record_none()
    assert sorted(first.update(None, more, (), GpuSeconds(3.0))) == [13, 48, 94, 95]


def test_a_count_that_was_there_first_replaces_no_event() -> None:
    log = started()
    assert list(log.update(13.0, None, (), GpuSeconds(10.0))) == [13]
    assert list(log.update(13.0, Extras(xid_counts=((13, 1.0),), xid_totals=((13, 1.0),)), (), GpuSeconds(20.0))) == []
    record = log.records[13]
    assert (record.last, record.dated, record.count) == (10.0, True, 1)


def test_a_sticky_code_that_is_counted_later_is_not_new() -> None:
    log = XidLog()
    log.update(79.0, Extras(xid_counts=()), (), GpuSeconds(0.0))
    assert list(log.update(79.0, Extras(xid_counts=((79, 1.0),)), (), GpuSeconds(1.0))) == []
    assert list(log.update(48.0, Extras(xid_counts=()), (), GpuSeconds(2.0))) == [48]
    assert list(log.update(48.0, Extras(xid_counts=((79, 1.0),)), (), GpuSeconds(3.0))) == [79]


def test_a_message_from_before_the_first_sample_dates_a_code() -> None:
    def at(time: float) -> list[KernelEvent]:
        return [KernelEvent("xid", 79, Unix(time), "00000000:01:00.0")]

    log = XidLog()
    log.update(79.0, None, (), GpuSeconds(0.0))
    assert list(log.add_kernel_events(at(70.0), (), now=GpuSeconds(10.0), time=Unix(110.0))) == []
    assert (log.records[79].last, log.records[79].dated, log.records[79].count) == (-30.0, True, 0)
    log.add_kernel_events(at(60.0), (), now=GpuSeconds(10.0), time=Unix(110.0))
    assert log.records[79].last == -30.0, "a dated code keeps its time"
    early = XidLog()
    assert list(early.add_kernel_events(at(70.0), (), now=GpuSeconds(0.0), time=Unix(100.0))) == []
    early.update(79.0, None, (), GpuSeconds(0.0))
    assert (early.records[79].last, early.records[79].dated) == (-30.0, True)


def test_a_new_code_that_two_inputs_report_at_once_is_an_event_whatever_was_logged_before() -> None:
    log = started()
    log.add_kernel_events(
        [KernelEvent("xid", 79, Unix(95.0), "00000000:01:00.0")], (), now=GpuSeconds(0.0), time=Unix(100.0)
    )
    assert list(log.update(79.0, Extras(xid_counts=((79, 1.0),)), (), GpuSeconds(5.0))) == [79]


def test_messages_of_the_kernel_are_events_each() -> None:
    log = started()
    for time in (101.0, 102.0):
        event = KernelEvent("xid", 79, Unix(time), "00000000:01:00.0")
        assert list(log.add_kernel_events([event], ("job",), now=GpuSeconds(20.0), time=Unix(120.0))) == [79]
    record = log.records[79]
    assert (record.count, record.bursts) == (2, [(1.0, ("job",))])
    assert list(log.update(79.0, None, (), GpuSeconds(30.0))) == [], "the gauge shows the same event"


def test_five_bursts_of_the_follower_are_no_repeat() -> None:
    log = started()
    for number in range(6):
        log.update(45.0, None, (), GpuSeconds(number * 1000.0 + 1))
        log.update(0.0, None, (), GpuSeconds(number * 1000.0 + 2))
    assert (log.repeated(GpuSeconds(6000.0)), len(log.records[45].bursts)) == (None, 6)


def kernel_event(code: int, time: float) -> KernelEvent:
    return KernelEvent("xid", code, Unix(time), "00000000:01:00.0")


def test_codes_are_limited_except_for_critical_ones() -> None:
    log = XidLog(critical={79})
    log.update(0.0, None, (), GpuSeconds(0.0))
    log.add_kernel_events([kernel_event(79, 1.0)], (), now=GpuSeconds(1.0), time=Unix(1.0))
    for code in range(1000, 4000):
        happened = list(
            log.add_kernel_events(
                [kernel_event(code, 2.0 + code)], (), now=GpuSeconds(2.0 + code), time=Unix(2.0 + code)
            )
        )
        assert happened == [code]
    assert list(log.records) == [79, *range(1000, 1000 + MAX_CODES), 3999]
    assert log.others + sum(record.count for record in log.records.values()) == 3001
    assert log.last == 3999


def test_codes_of_one_sample_are_limited() -> None:
    log = started()
    log.update(0.0, Extras(xid_totals=()), (), GpuSeconds(1.0))
    totals = tuple((code, 1.0) for code in range(1000, 4000))
    assert len(log.update(0.0, Extras(xid_totals=totals), (), GpuSeconds(2.0))) == 3000
    assert (len(log.records), log.others) == (MAX_CODES + 1, 3000 - MAX_CODES - 1)
    first = XidLog()
    first.update(None, Extras(xid_totals=totals), (), GpuSeconds(1.0))
    assert len(first.records) == MAX_CODES + 1
    assert first.last in first.records


def test_the_last_code_is_one_that_is_kept() -> None:
    log = started()
    for number, code in enumerate((*range(1000, 1000 + MAX_CODES), 2000, FOLLOWER)):
        log.add_kernel_events(
            [kernel_event(code, 1.0 + number)], (), now=GpuSeconds(1.0 + number), time=Unix(1.0 + number)
        )
    assert log.last == log.beyond == FOLLOWER
    assert log.last in log.records


def test_old_messages_are_limited() -> None:
    log = started()
    for code in range(1000, 4000):
        log.add_kernel_events([kernel_event(code, -5.0)], (), now=GpuSeconds(0.0), time=Unix(0.0))
    log.add_kernel_events([kernel_event(79, -5.0)], (), now=GpuSeconds(0.0), time=Unix(0.0))
    assert log.records == {}
    fresh = XidLog()
    for code in (79, *range(1000, 1000 + MAX_CODES - 1)):
        fresh.add_kernel_events([kernel_event(code, -5.0)], (), now=GpuSeconds(0.0), time=Unix(0.0))
    fresh.update(79.0, None, (), GpuSeconds(1.0))
    assert (fresh.records[79].last, fresh.records[79].dated) == (-5.0, True)


def test_saved_codes_are_limited() -> None:
    log = XidLog(critical={79})
    saved = {code: XidRecord(GpuSeconds(float(code)), dated=True, count=2) for code in (79, *range(1000, 4000))}
    log.restore(saved, 5, 3999)
    assert 79 in log.records
    assert list(log.records) == [79, *range(1000, 1000 + MAX_CODES), 3999]
    assert (log.beyond, log.last) == (3999, 3999)
    assert log.others + sum(record.count for record in log.records.values()) == 5 + 2 * 3001
    log.restore({}, 0, 79)
    assert log.last is None


def test_messages_of_an_earlier_run_are_not_counted_again() -> None:
    log = started()
    log.add_kernel_events([kernel_event(79, 5.0)], (), now=GpuSeconds(10.0), time=Unix(10.0))
    log.clear(GpuSeconds(8.0))
    again = XidLog(begun=GpuSeconds(10.5))
    again.restore(log.records, log.others, log.last)
    again.shown = log.shown
    assert list(again.add_kernel_events([kernel_event(79, 5.0)], (), now=GpuSeconds(12.0), time=Unix(12.0))) == []
    assert (again.records[79].count, again.records[79].cleared) == (1, True)
    assert list(again.add_kernel_events([kernel_event(79, 11.0)], (), now=GpuSeconds(12.0), time=Unix(12.0))) == [79]


def at_places(code: int, places: Sequence[str], programs: Sequence[str]) -> RepeatedXid | None:
    """What a code is that the kernel logged at these places, an hour after each other."""
    log = started()
    for number, (place, program) in enumerate(zip(places, programs, strict=True)):
        now = 3600.0 * (number + 1)
        log.add_kernel_events(
            [KernelEvent("xid", code, Unix(now), "", place=place)], (program,), GpuSeconds(now), Unix(now)
        )
    return log.repeated(GpuSeconds(3600.0 * len(places) + 1.0))


A, B = "GPC 3, TPC 5, SM 1", "GPC 3, TPC 5, SM 0"
DIFFERENT = [f"GPC {number}, TPC {number}, SM 0" for number in range(5)]


@pytest.mark.parametrize(
    ("code", "places", "programs", "expected"),
    [
        (13, [A] * 5, "xxxxx", RepeatedXid(13, (), A)),
        (13, [A, B, A, *DIFFERENT[:2]], "abcde", RepeatedXid(13, (), A)),
        (13, DIFFERENT, "abcde", RepeatedXid(13, is_of_programs=True)),
        (13, DIFFERENT, "xxxxx", RepeatedXid(13, ("x",), is_of_programs=True)),
        (13, [*DIFFERENT[:4], ""], "abcde", RepeatedXid(13)),
        (13, [A] * 4, "abcd", None),
        (31, ["GPC 3, GPCCLIENT_T1_0"] * 3, "abb", RepeatedXid(31, (), "GPC 3, GPCCLIENT_T1_0")),
        (31, DIFFERENT[:3], "abb", RepeatedXid(31, is_of_programs=True)),
    ],
)
def test_the_place_on_the_chip_decides(
    code: int, places: list[str], programs: str, expected: RepeatedXid | None
) -> None:
    """NVSentinel#270, #271."""
    assert at_places(code, places, programs) == expected
