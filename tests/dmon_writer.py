"""Prints what `dcgmi dmon` prints, byte for byte, in each of its four layouts.

The other side of `pulsed.reader.dmon`: written from DCGM's behaviour and sharing no code with the parser, so that a
test which lets one read what the other wrote says something. Also the data behind a stand-in `dcgmi`.

    writer = DmonWriter(ERAS["C1"], [1001, 155])
    writer.header()
    writer.tick([("GPU 0", [0.5, 71.25]), ("GPU 1", [None, ABSENT])])
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

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


FIELDS = {
    field.id: field
    for field in (
        Field(1, "DRVER", 7, "#", "string"),
        Field(50, "DVNAM", 20, "", "string"),
        Field(53, "SRNUM", 16, "", "string"),
        Field(54, "UUID#", 40, "", "string"),
        Field(57, "PCBID", 20, "", "string"),
        Field(60, "STVCI", 16, "", "binary"),
        Field(68, "CUVID", 5, "", "string"),
        Field(85, "VBVER", 16, "", "string"),
        Field(100, "SMCLK", 5),
        Field(101, "MMCLK", 5),
        Field(112, "DVCCTR", 20),
        Field(113, "SMMAX", 5),
        Field(140, "MMTMP", 10, " C"),
        Field(150, "TMPTR", 5, " C"),
        Field(153, "GTLIMIT", 5, " C"),  # 3.1 and newer: in era A the name would fill its column
        Field(155, "POWER", 10, " W", "double"),
        Field(156, "TOTEC", 16, " mJ"),
        Field(157, "POWINST", 10, " W", "double"),
        Field(158, "SDTMP", 5, " C"),
        Field(159, "SHTMP", 5, " C"),
        Field(160, "PMLMT", 10, " W", "double"),
        Field(190, "PSTAT", 5),
        Field(200, "TXTPT", 7, "KB/s"),
        Field(201, "RXTPT", 7, "KB/s"),
        Field(202, "RPCTR", 5, "#"),
        Field(203, "GPUTL", 10),
        Field(204, "MCUTL", 10),
        Field(206, "ECUTL", 10),
        Field(207, "DCUTL", 10),
        Field(230, "XIDER", 5),
        Field(235, "PCIMG", 5),
        Field(236, "PCIMW", 5),
        Field(237, "PCILG", 5),
        Field(238, "PCILW", 5),
        Field(240, "PVIOL", 10),
        Field(241, "TVIOL", 10),
        Field(250, "FBTTL", 10),
        Field(251, "FBFRE", 10),
        Field(252, "FBUSD", 10),
        Field(253, "FBRSV", 10),
        Field(254, "FBUSP", 10, "", "double"),
        Field(310, "ESVTL", 5),
        Field(311, "EDVTL", 5),
        Field(312, "ESATL", 5),
        Field(313, "EDATL", 5),
        Field(350, "MEMRES", 10),
        Field(356, "MEMRES", 10),
        Field(390, "RPSBE", 16),
        Field(391, "RPDBE", 16),
        Field(392, "RPPEN", 10),
        Field(393, "URMPS", 10),
        Field(394, "CRMPS", 10),
        Field(395, "RRF", 20),
        Field(396, "RRP", 20),
        Field(409, "NFELT", 20),
        Field(429, "NRELT", 20),
        Field(439, "NRCLT", 20),
        Field(449, "NBWLT", 20, "MB/s"),
        Field(450, "GNVERR", 5),
        Field(504, "VIUTL", 10, "", "binary"),
        Field(525, "VMUSG", 10),
        Field(1001, "GRACT", 5, "", "double"),
        Field(1002, "SMACT", 5, "", "double"),
        Field(1003, "SMOCC", 5, "", "double"),
        Field(1004, "TENSO", 5, "", "double"),
        Field(1005, "DRAMA", 5, "", "double"),
        Field(1006, "FP64A", 5, "", "double"),
        Field(1007, "FP32A", 5, "", "double"),
        Field(1008, "FP16A", 5, "", "double"),
        Field(1009, "PCITX", 20),
        Field(1010, "PCIRX", 20),
        Field(1011, "NVLTX", 20),
        Field(1012, "NVLRX", 20),
        Field(1013, "TIMMA", 5, "", "double"),
        Field(1014, "THMMA", 5, "", "double"),
        Field(1015, "TDFMA", 5, "", "double"),
        Field(1016, "INTAC", 5, "", "double"),
        Field(1216, "NLSYMBF", 7, "BER", "double"),
    )
}
"""The most used fields, by id; widths of GPU fields never changed between versions."""


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
