"""A table of all GPUs for a terminal.

A missing value is a `-`; missing inputs are listed below the table. Names are input from outside: control characters
in them are replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import NamedTuple

from rich.cells import cell_len

from pulsed.model.clocks import Monotonic
from pulsed.model.target_store import TargetStore
from pulsed.number_text import left, right
from pulsed.owners.report.text_table import DEMO_NOTICE
from pulsed.present.api.gpu_matches import Match, matches
from pulsed.printable import clean

WIDTH = 120
MISSING = "-"

Cell = Callable[[Match], str]


class Column(NamedTuple):
    """A column: title, maximum width in cells, alignment (`left` or `right`), and the text of a cell."""

    title: str
    width: int
    fitted: Callable[[str, int], str]
    cell: Cell


def table(store: TargetStore, now: Monotonic, width: int = WIDTH) -> str:
    """Return the table of all GPUs, with problems above and below it; ends with a newline.

    Names are shortened to fit `width` cells, numbers never.
    """
    gpu_matches = list(matches(store, now))
    lines = []
    if any(target.kind == "demo" for target in store.targets):
        lines.append(DEMO_NOTICE)
    if gpu_matches:
        several = len({match.node for match in gpu_matches}) > 1
        lines.extend(_rows(gpu_matches, [column for column in _COLUMNS if several or column is not _NODE], width))
    else:
        lines.append("no GPUs")
    lines.extend(_missing_inputs(gpu_matches))
    lines.extend(f"stale: {clean(target.name)}" for target in store.targets if target.tick and not target.fresh(now))
    lines.extend(
        f"down: {clean(target.name)}: {clean(target.failure)}"
        for target in store.targets
        if not target.up and not target.ended
    )
    return "\n".join(lines) + "\n"


def _percent(name: str) -> Cell:
    return _number(name, lambda value: f"{100 * value:.0f}%")


def _number(name: str, format: Callable[[float], str]) -> Cell:
    def cell(match: Match) -> str:
        value = getattr(match.reading, name)
        return MISSING if value is None or not isfinite(value) else format(value)

    return cell


def _real_utilization(match: Match) -> str:
    ratio = match.result.real_utilization.ratio
    point = "?" if ratio.value is None else f"{100 * ratio.value:.0f}%"
    lower, upper = f"{100 * ratio.low:.0f}", f"{100 * ratio.high:.0f}"
    return point if lower == upper and ratio.value is not None else f"{point} {lower}..{upper}"


def _mig(match: Match) -> str:
    entity = match.device.entity
    return " ".join(part for part in (entity.mig_id, entity.mig_profile) if part)


def _memory(match: Match) -> str:
    used, size = match.reading.memory_used_bytes, match.reading.memory_bytes
    texts = [MISSING if value is None or not isfinite(value) else f"{value / 2**30:.1f}" for value in (used, size)]
    return MISSING if texts == [MISSING, MISSING] else "/".join(texts)


def _owners(match: Match) -> str:
    names = [owner.name if owner.kind == "pod" else owner.id for owner in match.owners or ()]
    return (f"({len(names)}) " if len(names) > 1 else "") + names[0] if names else ""


_NODE = Column("NODE", 24, left, lambda match: match.node)

_COLUMNS = (
    _NODE,
    Column("GPU", 4, right, lambda match: match.device.entity.gpu or MISSING),
    Column("MIG", 11, left, _mig),
    Column("MODEL", 32, left, lambda match: match.device.model.removeprefix("NVIDIA ") or MISSING),
    Column("REAL UTIL", 12, right, _real_utilization),
    Column("CLASS", 20, left, lambda match: match.result.shown_class.workload_class),
    Column("SM", 4, right, _percent("sm_active_ratio")),
    Column("TENS", 4, right, _percent("tensor_active_ratio")),
    Column("DRAM", 4, right, _percent("dram_active_ratio")),
    Column("GR", 4, right, _percent("graphics_engine_active_ratio")),
    Column("UTIL", 4, right, _percent("gpu_utilization_ratio")),
    Column("MEM GiB", 11, right, _memory),
    Column("W", 4, right, _number("power_watts", lambda value: f"{value:.0f}")),
    Column("°C", 3, right, _number("temperature_celsius", lambda value: f"{value:.0f}")),
    Column("OWNER", 20, left, _owners),
)


def _rows(gpu_matches: list[Match], columns: list[Column], width: int) -> Iterable[str]:
    texts = [[clean(column.cell(match)) for column in columns] for match in gpu_matches]
    # An empty column (MIG on GPUs without it) is omitted.
    used = [at for at in range(len(columns)) if any(row[at] for row in texts)]
    widths = {
        at: min(columns[at].width, max(cell_len(columns[at].title), *(cell_len(row[at]) for row in texts)))
        for at in used
    }
    _give_way(widths, columns, width)
    for row in [[column.title for column in columns], *texts]:
        yield "  ".join(columns[at].fitted(row[at], widths[at]) for at in used).rstrip()


def _give_way(widths: dict[int, int], columns: list[Column], width: int) -> None:
    """Reduce the widths of names until the table fits; numbers are never cut."""
    over = sum(widths.values()) + 2 * (len(widths) - 1) - width
    for title, least in (("MODEL", 6), ("OWNER", 10), ("NODE", 6), ("CLASS", 10), ("MIG", 7)):
        for at in widths:
            if columns[at].title == title and over > 0:
                cut = max(0, min(over, widths[at] - least))
                widths[at] -= cut
                over -= cut


def _missing_inputs(gpu_matches: list[Match]) -> Iterable[str]:
    """Yield a line per set of missing inputs of real utilization, with its GPUs."""
    groups: dict[tuple[str, ...], list[str]] = {}
    several = len({match.node for match in gpu_matches}) > 1
    for match in gpu_matches:
        missing = match.result.real_utilization.ratio.missing
        if missing:
            name = match.device.entity.name
            groups.setdefault(missing, []).append(clean(f"{match.node}/{name}" if several else name))
    for missing, names in groups.items():
        shown = "all GPUs" if len(names) == len(gpu_matches) and len(gpu_matches) > 1 else "GPU " + _listed(names)
        yield f"missing on {shown}: {', '.join(missing)}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:16]) + (f" and {len(names) - 16} more" if len(names) > 16 else "")
