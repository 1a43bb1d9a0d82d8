from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsed.present.exposition.text_format import MAX_ACCEPT_LENGTH, accepts_gzip, choose_format

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OLD_OPENMETRICS = "application/openmetrics-text; version=0.0.1; charset=utf-8"
ESCAPED = "; escaping=underscores"

PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3_UNDERSCORES = (
    "application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=underscores;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
PROMETHEUS_3_PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_2_OLD = "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PROMETHEUS_1 = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CHROME = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (PROMETHEUS_3, OPENMETRICS),
        (PROMETHEUS_3_UNDERSCORES, OPENMETRICS + ESCAPED),
        (PROMETHEUS_3_PROTOBUF, OPENMETRICS),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_2_OLD, OLD_OPENMETRICS),
        (PROMETHEUS_1, TEXT),
        (FIREFOX, TEXT),
        (CHROME, TEXT),
        ("", TEXT),
        ("*/*", TEXT),
        ("text/*", TEXT),
        ("application/*", OPENMETRICS),
        ("text/plain", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("text/plain;version=0.0.4;escaping=underscores", TEXT + ESCAPED),
        ("application/openmetrics-text", OPENMETRICS),
        ('Application/OpenMetrics-Text; Version="1.0.0"', OPENMETRICS),
        ("application/openmetrics-text; version=0.0.1", OLD_OPENMETRICS),
        # q decides, and 0 is a refusal
        ("application/openmetrics-text;q=0.4,text/plain;q=0.5", TEXT),
        ("text/plain;q=0.4,application/openmetrics-text;q=0.5", OPENMETRICS),
        ("application/openmetrics-text;q=0,text/plain;q=0.1", TEXT),
        ("text/plain;q=0,*/*", OPENMETRICS),
        ("application/openmetrics-text;q=0,*/*", TEXT),
        ("application/openmetrics-text;version=1.0.0;q=0,application/openmetrics-text", OLD_OPENMETRICS),
        # the most specific range decides about an offer, wherever it stands
        ("*/*;q=1,text/plain;q=0.1,application/openmetrics-text;q=0.2", OPENMETRICS),
        ("text/*;q=0.9,text/plain;q=0.1,application/openmetrics-text;q=0.5", OPENMETRICS),
        # alike: what is named more precisely, then what is named first
        ("*/*,application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text,text/plain", OPENMETRICS),
        ("text/plain,application/openmetrics-text", TEXT),
        # versions that there are not
        ("application/openmetrics-text;version=2.0.0,*/*;q=0.5", TEXT),
        ("application/openmetrics-text;version=2.0.0,application/openmetrics-text;version=1.0.0;q=0.5", OPENMETRICS),
        ("text/plain;version=1.0.0", TEXT),
        # none that there is: text anyway
        ("application/json", TEXT),
        ("*/*;q=0", TEXT),
        # what cannot be read is left out
        ("application/openmetrics-text;q=high,text/plain;q=0.1", TEXT),
        ("application/openmetrics-text;q=2,text/plain;q=0.1", TEXT),
        ("application/openmetrics-text;q=-1,text/plain;q=0.1", TEXT),
        ("application/openmetrics-text;q=nan,text/plain;q=0.1", TEXT),
        (",;,/,text,application/,q=1", TEXT),
        ("application/openmetrics-text," + " " * MAX_ACCEPT_LENGTH, TEXT),
    ],
)
def test_the_format_is_the_one_that_the_client_likes_best(accept: str, content_type: str) -> None:
    chosen = choose_format(accept)
    assert chosen.content_type == content_type
    assert chosen.openmetrics is content_type.startswith("application/openmetrics-text")


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("*", True),
        ("identity;q=0.5, gzip;q=0.5", True),
        ("identity;q=0, gzip;q=0.1", True),
        ("br;q=1.0, gzip;q=0.001", True),
        ("", False),
        ("identity", False),
        ("deflate, br", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("identity, gzip;q=0.5", False),
        ("gzip;q=much", False),
        (",;,", False),
        ("gzip," + " " * MAX_ACCEPT_LENGTH, False),
    ],
)
def test_gzip_only_for_those_who_want_it(accept_encoding: str, expected: bool) -> None:
    assert accepts_gzip(accept_encoding) is expected


@given(st.text(st.sampled_from('aq=0.1;,*/ "²textplain'), max_size=60), st.text(max_size=60))
def test_no_header_fails_a_scrape(made: str, anything: str) -> None:
    for header in (made, anything):
        assert choose_format(header).content_type.endswith(("charset=utf-8", ESCAPED))
        accepts_gzip(header)
