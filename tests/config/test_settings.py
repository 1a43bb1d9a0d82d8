from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.config.schema import shown
from pulsed.config.values import moment, resolve_path, size
from pulsed.durations import duration, duration_or_none
from pulsed.server.settings import host_and_port


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (15, 15.0),
        (0.5, 0.5),
        ("100ms", 0.1),
        ("15s", 15.0),
        ("1m", 60.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("1d", 86400.0),
        (" 2s ", 2.0),
    ],
)
def test_duration(written: object, seconds: float) -> None:
    assert duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(("written", "seconds"), [(0, 0.0), ("0", 0.0), ("0s", 0.0), ("2s", 2.0), (0.5, 0.5)])
def test_a_duration_that_may_be_none(written: object, seconds: float) -> None:
    assert duration_or_none(written) == seconds


@pytest.mark.parametrize("written", [False, "-1s", "", None])
def test_no_duration_that_may_be_none(written: object) -> None:
    with pytest.raises(ValueError, match=r"^is "):
        duration_or_none(written)


NOT_DURATIONS: dict[str, list[object]] = {
    "is negative": [-1, "-1s"],
    "is not a positive duration": [0, "0s"],
    "is not a duration": [
        *("", "s", "15", "15 s", "1x", "1s!", "1e3s", True, None, []),
        *(float("nan"), float("inf"), "nan", "9" * 400 + "s"),
    ],
}


@pytest.mark.parametrize(
    ("written", "reason"), [(each, reason) for reason, written in NOT_DURATIONS.items() for each in written]
)
def test_no_duration(written: object, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        duration(written)


@given(st.integers(1, 999), st.integers(0, 59), st.integers(0, 999))
def test_durations_add_up(hours: int, seconds: int, milliseconds: int) -> None:
    written = f"{hours}h{seconds}s{milliseconds}ms"
    assert duration(written) == pytest.approx(hours * 3600 + seconds + milliseconds / 1000)


@pytest.mark.parametrize(
    ("written", "expected"),
    [(1, 1), ("64MiB", 2**26), ("1.5 GB", 1_500_000_000), ("1Gi", 2**30), ("10kB", 10_000), ("7", 7), ("7B", 7)],
)
def test_size(written: object, expected: int) -> None:
    assert size(written) == expected


@pytest.mark.parametrize("written", [0, -1, "1e3", "64 megs", 1.5, True, None, "", "9" * 400, "0.5B"])
def test_no_size(written: object) -> None:
    with pytest.raises(ValueError, match=r"^is "):
        size(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (":9401", ("", 9401)),
        ("9401", ("", 9401)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("gpu-1.example.com:65535", ("gpu-1.example.com", 65535)),
        ("[::1]:9401", ("::1", 9401)),
        ("[fe80::1%eth0]:9401", ("fe80::1%eth0", 9401)),
    ],
)
def test_address(written: str, expected: tuple[str, int]) -> None:
    assert host_and_port(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        *("", ":", "localhost", "localhost:", ":http", ":-1", ":65536", ":94 01", ":٣", "٣"),
        *("::1:9401", "[::1]", "[::1:9401", "[x]:1", "a b:1", "http://a:1", "unix:/run/pulsed"),
    ],
)
def test_no_address(written: str) -> None:
    with pytest.raises(ValueError, match=r"^(has|needs) "):
        host_and_port(written)


@pytest.mark.parametrize(
    "written", [1767225600, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00", "2026-01-01"]
)
def test_moment(written: object) -> None:
    assert moment(written) == 1767225600.0


@pytest.mark.parametrize("written", ["now", "", True, None, float("nan"), "2026-13-01"])
def test_no_moment(written: object) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        moment(written)


def test_values_are_shown_short_and_without_logins() -> None:
    assert shown("http://u:hunter2@a/metrics") == "'http://***@a/metrics'"
    assert shown("u:hunter2@a:9400") == "'***@a:9400'"
    assert len(shown("x" * 10_000)) < 120
    assert (shown(True), shown(None), shown(1.5)) == ("true", "nothing", "1.5")


def test_names_beside_a_file() -> None:
    assert resolve_path("/etc/pulsed/config.yaml", "ca.pem") == "/etc/pulsed/ca.pem"
    assert resolve_path("/etc/pulsed/config.yaml", "/ca.pem") == "/ca.pem"
    assert resolve_path("config.yaml", "ca.pem") == "ca.pem"
    assert resolve_path("/etc/pulsed/config.yaml", "http://a/metrics") == "http://a/metrics"
