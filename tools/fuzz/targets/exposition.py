"""Pages of exporters: read twice, after one another, and against prometheus_client's parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from pulsed.errors import BadPage, TooManyGpus
from pulsed.reader.exposition.parser import Page, PageParser
from pulsed.reader.exposition.row import PageLimits
from tests.reader.exposition.reading import line_by_line, samples
from tools.bench.pages import exporter_page
from tools.fuzz.target import FuzzTarget

_LIMITS = PageLimits(max_gpus=8, max_lines=2000, max_rejected=500, max_series=1000, max_label_sets=500)


_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_VALUE = re.compile(rb"(\} +)\d")


def _read(data: bytes) -> Page:
    return PageParser(_LIMITS).parse(data)


def _verify(data: bytes, outcome: Any) -> None:
    # Pages of one target one after another, each again, and with other numbers.
    parser = PageParser(_LIMITS)
    for page in [page for part in data.split(b"\n\n") for page in (part, part, _VALUE.sub(rb"\g<1>7", part))]:
        alone = EXPOSITION.outcome(partial(_read, page))
        after = EXPOSITION.outcome(partial(parser.parse, page))
        if isinstance(alone, Page) and isinstance(after, Page):
            assert _comparable(after) == _comparable(alone), "a page is read otherwise after others"
        elif isinstance(alone, Page):
            assert isinstance(after, TooManyGpus) or _is_limit(after), after
    for line in data.decode(errors="backslashreplace").removeprefix("\ufeff").split("\n"):
        expected = line_by_line(line)
        names = [each for name, labels in expected for each in (name, *[label for label, _ in labels])]
        if expected and all(map(_NAME.fullmatch, names)):  # prometheus_client takes others, too
            found = EXPOSITION.outcome(partial(_read, f"\n{line}".encode()))  # not the begin: no byte order mark
            if isinstance(found, Page) and not found.rejected:
                assert samples(found) == expected, f"prometheus_client reads {expected}"


def _comparable(page: Page) -> object:
    return samples(page), page.samples, dict(page.rejected)


def _is_limit(outcome: object) -> bool:
    return isinstance(outcome, BadPage) and "more than" in str(outcome).lower()


def _seeds() -> Iterator[bytes]:
    page = exporter_page(2, 3)
    yield page
    yield page + b"\n" + exporter_page(2, 3, 1)
    yield b'a{gpu="0"} 1 1395066363000\nb{UUID="GPU-1",x="} 5"} +Inf # {id="1"} 0.5\nup 1\n# EOF\n'
    yield b'# HELP a text \\n\n# TYPE a counter\na_total{gpu="0" , x = "\\"\\\\\\n"} 1e3\n\na_total{gpu="1"} nan\n'
    yield b"<html>502</html>"
    yield b"\xef\xbb\xbfup{} 1\r\n\xff{} 2\n"


EXPOSITION = FuzzTarget(
    "exposition",
    _read,
    (BadPage, TooManyGpus),
    _verify,
    _seeds,
    (
        *(b"# HELP ", b"# TYPE ", b"# EOF", b"gauge", b'{gpu="0"} ', b"} ", b'"} 1', b'",', b'="', b"\\n", b'\\"'),
        *(b"NaN", b"+Inf", b"1e3", b"0x1p3", b"1_0", b" # {", b" 1395066363000", b"\n\n", b"\r\n", b"\xef\xbb\xbf"),
    ),
)
