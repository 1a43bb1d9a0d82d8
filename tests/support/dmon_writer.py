"""Prints what `dcgmi dmon` prints, byte for byte, in each of its four layouts.

The other side of `pulsed.reader.dmon`: written from DCGM's behaviour and sharing no code with the parser, so that a
test which lets one read what the other wrote says something. Also the data behind a stand-in `dcgmi`.

    writer = DmonWriter(ERAS["C1"], [1001, 155])
    writer.header()
    writer.tick([("GPU 0", [0.5, 71.25]), ("GPU 1", [None, ABSENT])])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal, cast

Kind = Literal["int", "double", "string", "binary"]


class Absent(Enum):
    """The entity does not have the field, e.g. DRAM activity of a MIG compute instance."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
Value = float | str | None | Absent
"""None is a DCGM blank (no data, not supported, no permission); an int stays one."""


@dataclass(frozen=True)
class Field:
    """A DCGM field as dmon prints it.

    Attributes:
        width: its table width, of which each era makes a column width.
        unit: its unit text, which most fields have not.
    """

    id: int
    short: str
    width: int
    unit: str = ""
    kind: Kind = "int"


FIELD_TABLE = Path(__file__).with_name("standin") / "fields.tsv"
"""Columns: id, short name, former short name, table width, type, level, first and last version seen, name."""

_UNITS = {
    **dict.fromkeys((1, 202), "#"),
    **dict.fromkeys((140, 150, 153, 158, 159), " C"),
    **dict.fromkeys((155, 157, 160), " W"),
    **dict.fromkeys((200, 201), "KB/s"),
    156: " mJ",
    449: "MB/s",
    1216: "BER",
}


def _fields() -> Iterator[Field]:
    for line in FIELD_TABLE.read_text().splitlines():
        number, short, _, width, kind, *_ = line.split("\t")
        yield Field(int(number), short, int(width), _UNITS.get(int(number), ""), cast("Kind", kind))


FIELDS = {field.id: field for field in _fields()}
"""By id, with the newest names; widths of GPU fields never changed between versions."""


@dataclass(frozen=True)
class Era:
    """One way in which dmon prints, over a range of DCGM versions.

    Attributes:
        right: values end below the end of their column's name; otherwise they start below its start.
        entity_width: of the first column.
        padding: what a column is wider than its field's table width. Left-aligned columns keep two of it blank.
        marks: what the first column says in the two header lines.
        blank_cells: an absent field leaves a blank cell; otherwise no cell at all, and later values move left.
        stopped: what stands at the end after SIGINT, blank lines included.
    """

    name: str
    versions: str
    right: bool
    entity_width: int
    padding: int
    marks: tuple[str, str]
    blank_cells: bool
    stopped: str


ERAS = {
    era.name: era
    for era in (
        Era(
            "A",
            "1.7 - 2.3",
            right=True,
            entity_width=8,
            padding=2,
            marks=("# Entity", "Id"),
            blank_cells=False,
            stopped="\ndmon was stopped due to receiving a signal.\n",
        ),
        Era(
            "B",
            "2.4 - 3.3",
            right=False,
            entity_width=10,
            padding=8,
            marks=("#Entity", "ID"),
            blank_cells=False,
            stopped="\n\ndmon was stopped do to receiving a signal\n",  # "do": DCGM's own slip
        ),
        Era(
            "C1",
            "4.0 - 4.4",
            right=False,
            entity_width=11,
            padding=8,
            marks=("#Entity", "ID"),
            blank_cells=True,
            stopped="\n\ndmon was stopped due to receiving a signal\n",
        ),
        Era(
            "C2",
            "4.5 -",
            right=False,
            entity_width=16,
            padding=8,
            marks=("#Entity", "ID"),
            blank_cells=True,
            stopped="\n\ndmon was stopped due to receiving a signal\n",
        ),
    )
}

_BLANK_INT64 = 0x7FFFFFFFFFFFFFF0
_BLANK_FP64 = 140737488355328.0
_TICKS_PER_HEADER = 14
_LEFT_BLANKS = 2


def value_text(era: Era, field: Field, value: float | str | None) -> str:
    """A value as dmon words it, before it is put into a column."""
    if field.kind == "string":
        return "<<<NULL>>>" if value is None else str(value)
    if value is None or field.kind == "binary":
        return "N/A"
    if field.kind == "int":
        number = int(value)
        return "N/A" if number >= _BLANK_INT64 else str(number)
    real = float(value)
    if real >= _BLANK_FP64:
        return "N/A"
    text = f"{real:.3f}"
    return text if era.right else text.upper()


def cell(era: Era, field: Field, text: str) -> str:
    """A text in its column; too long, it moves the line (era A) or is cut with `...`."""
    width = field.width + era.padding
    if era.right:
        return (" " if len(text) >= width else "") + text.rjust(width)
    most = width - _LEFT_BLANKS
    return (text if len(text) <= most else text[: most - 3] + "...").ljust(width)


def header_text(era: Era, fields: Sequence[Field]) -> str:
    """Both header lines."""
    first, second = era.marks
    if era.right:
        names = first + "".join(field.short.rjust(field.width + era.padding) for field in fields)
        units = second.rjust(era.entity_width) + "".join(f.unit.rjust(f.width + era.padding) for f in fields)
    else:
        names = first.ljust(era.entity_width) + "".join(cell(era, field, field.short) for field in fields)
        units = second.ljust(era.entity_width) + "".join(cell(era, field, field.unit) for field in fields)
    return f"{names}\n{units}\n"


def row_text(era: Era, fields: Sequence[Field], entity: str, values: Sequence[Value]) -> str:
    """One row. `entity` is label and id as dcgmi words them: `GPU 0`, `CPU Core 10`, `GPU 0 LINK 5`."""
    label, _, number = entity.rpartition(" ")
    # In era A only the label has the width; the id hangs over and moves the line.
    start = f"{label} ".rjust(era.entity_width) + number if era.right else entity.ljust(era.entity_width)
    if era.blank_cells:
        texts = ["" if v is ABSENT else value_text(era, f, v) for f, v in zip(fields, values, strict=True)]
    else:
        texts = [value_text(era, f, v) for f, v in zip(fields, values, strict=True) if v is not ABSENT]
    return start + "".join(cell(era, field, text) for field, text in zip(fields, texts, strict=False)) + "\n"


class DmonWriter:
    """One run of `dcgmi dmon`: repeats the header as dcgmi does.

    Args:
        era: the layout.
        field_ids: the list after `-e`.
    """

    def __init__(self, era: Era, field_ids: Iterable[int]) -> None:
        self.era = era
        self.fields = [FIELDS[field_id] for field_id in field_ids]
        self._since_header = -1

    def header(self) -> str:
        """The header lines, which dcgmi prints at once, even before it knows whether it may watch the fields."""
        return header_text(self.era, self.fields)

    def tick(self, rows: Iterable[tuple[str, Sequence[Value]]]) -> str:
        """One tick, after the header where it is due: first after 15 ticks, then after every 14."""
        due = self._since_header == _TICKS_PER_HEADER
        self._since_header = 1 if due else self._since_header + 1
        again = ("\n" if self.era.right else "") + self.header() if due else ""
        return again + "".join(row_text(self.era, self.fields, entity, values) for entity, values in rows)

    def stopped(self) -> str:
        """What dcgmi prints after SIGINT; it exits with 0."""
        return self.era.stopped


@dataclass(frozen=True)
class Failure:
    """A way in which dmon ends badly.

    Attributes:
        moment: `connect` and `parse` come before the header, `watch` after the first header, `running` after ticks.
        result: DCGM's result code; the exit code is its low byte.
        text: what is printed since 2.4, all lines.
        text_a: what era A printed.
        stream: since 2.4. Era A printed everything to stdout.
    """

    moment: Literal["connect", "parse", "watch", "running"]
    result: int
    text: str
    text_a: str
    stream: Literal["stdout", "stderr"] = "stderr"

    @property
    def exit_code(self) -> int:
        return self.result & 255

    def text_in(self, era: Era) -> str:
        return self.text_a if era.right else self.text

    def stream_in(self, era: Era) -> Literal["stdout", "stderr"]:
        return "stdout" if era.right and self.moment != "parse" else self.stream


def _watch(result: int, meaning: str) -> Failure:
    since_24 = f"Error setting watches. Result: {result}: {meaning}\n\n"
    return Failure("watch", result, since_24, f"Error setting watches. Result: {meaning}\n")


_NO_CONNECTION = (
    "Error: unable to establish a connection to the specified host: localhost\n"
    "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n"
)
_PARSE = (
    "PARSE ERROR: Argument: -q\n             Couldn't find match for argument\n"
    "An error occurred trying to parse the command line.\n"
)
_NEEDS = "Unable to watch one or more of the requested fields because doing so requires "

FAILURES = {
    "no_engine": Failure("connect", -21, _NO_CONNECTION, _NO_CONNECTION, "stdout"),
    "bad_argument": Failure("parse", -2, _PARSE, _PARSE),
    "bad_field": Failure(
        "parse",
        -1,
        "Error: Got invalid field ID. '99999'. See dcgm_fields.h for a list of valid field IDs.\n",
        "Error: Got invalid field ID. '99999'. See dcgm_fields.h for a list of valid field IDs.\n",
    ),
    "field_not_supported": _watch(-6, "This request is not supported by this device or driver"),
    "needs_root": _watch(-29, _NEEDS + "the host engine to be running as root."),
    "module_not_loaded": _watch(-33, "This request is serviced by a module of DCGM that is not currently loaded"),
    "in_use": _watch(-34, "The requested operation could not be completed because the affected resource is in use"),
    "profiling_held": _watch(-37, "The third-party Profiling module returned an unrecoverable error"),
    "too_many_groups": _watch(-38, "The requested profiling metrics cannot be collected in a single pass"),
    "old_driver": _watch(-44, _NEEDS + "a newer driver version than what is currently installed."),
    "engine_died": Failure(
        "running",
        -21,
        "Error getting values information. Return -21: Host engine connection invalid/disconnected\n",
        "Error getting values information.Return: Host engine connection invalid/disconnected\n",  # no blank: DCGM's
    ),
    "no_data": Failure(
        "running",
        -14,
        "No data returned from the hostengine.\n",
        "Error: The field group or entity group is empty.\n",
    ),
}
"""The failures by what is wrong."""


def is_visible(era: Era, field: Field, value: float | str) -> bool:
    """Whether a value is printed whole in this era: not as `N/A`, not cut, not NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return False
    text = value_text(era, field, value)
    return text != "N/A" and cell(era, field, text).strip() == text.strip()
