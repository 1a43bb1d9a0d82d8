"""`dcgmi discovery -l` and `-c`, and the two ways to ask for the version.

Texts by dcgmi/Query.cpp, DcgmiOutput.cpp and Version.cpp of DCGM and by captures of 3.1.8, 3.2.6 and 4.7.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.support.standin.board import bus_id_of, uuid_of
from tests.support.standin.entities import all_rows
from tests.support.standin.scenario import Gpu, Scenario

_ID_WIDTH, _INFO_WIDTH = 8, 70
_TREE_WIDTHS = (19, 68)


def _line(widths: Sequence[int], stroke: str = "-") -> str:
    return "+" + "".join(stroke * width + "+" for width in widths) + "\n"


def _cells(widths: Sequence[int], texts: Iterable[str]) -> str:
    cells = (f" {text.ljust(width - 2)} |" for width, text in zip(widths, texts, strict=True))
    return "|" + "".join(cells) + "\n"


def _table(widths: Sequence[int], titles: Sequence[str], sections: Iterable[Sequence[Sequence[str]]]) -> str:
    """DCGM's table: sections of rows, a line after the titles, between sections and at the end."""
    bodies = ["".join(_cells(widths, row) for row in section) for section in sections]
    return _line(widths) + _cells(widths, titles) + _line(widths) + _line(widths).join(bodies) + _line(widths)


def _gpu_lines(gpu: Gpu, index: int, with_state: bool) -> list[Sequence[str]]:
    known = " (last known)" if with_state and gpu.state != "ok" else ""
    lines = [
        f"Name: {gpu.model}{known}",
        f"PCI Bus ID: {bus_id_of(gpu, index)}{known}",
        f"Device UUID: {uuid_of(gpu, index)}",
    ]
    if known:
        lines.insert(0, f"Status: {'Lost' if gpu.state == 'lost' else 'Unknown'}")
    return [[str(index) if not place else "", line] for place, line in enumerate(lines)]


def _plural(count: int, word: str, ending: str = "s") -> str:
    return f"{count} {word}{'' if count == 1 else ending}"


def listing(scenario: Scenario, show_all: bool = False) -> str:
    """`dcgmi discovery -l`. Since 4.5 only GPUs in order, unless `-a` is given (`show_all`)."""
    release = scenario.release
    with_state = release >= (4, 5)
    shown = [
        _gpu_lines(gpu, index, with_state)
        for index, gpu in enumerate(scenario.gpus)
        if gpu.state == "ok" or show_all or not with_state
    ]
    text = _plural(len(shown), "GPU") + " found"
    text += f" ({'All' if show_all else 'Active'}).\n" if with_state else ".\n"
    if with_state and not show_all and len(shown) != len(scenario.gpus):
        text += "Note: Use -a flag to show all GPUs, including those that are not active.\n"
    text += _table((_ID_WIDTH, _INFO_WIDTH), ("GPU ID", "Device Information"), shown)
    text += _plural(scenario.switches, "NvSwitch", "es") + " found.\n"
    switches = [[[str(number)]] for number in range(scenario.switches)]
    # Sections are separated in GPU and CPU tables only.
    text += _table((11,), ("Switch ID",), [[row for section in switches for row in section]] if switches else [])
    if release >= (4, 1):
        text += "0 ConnectX found.\n" + _table((10,), ("ConnectX",), [])
    if release >= (3, 3):
        cpus = [_cpu_lines(number) for number in range(scenario.cpus)]
        text += _plural(scenario.cpus, "CPU") + " found.\n"
        text += _table((_ID_WIDTH, _INFO_WIDTH), ("CPU ID", "Device Information"), cpus)
    return text


def _cpu_lines(number: int) -> list[Sequence[str]]:
    first = 72 * number
    return [[str(number), "Name: Grace"], ["", f"Cores: {first}-{first + 71}"]]


def hierarchy(scenario: Scenario) -> str:
    """`dcgmi discovery -c`: the tree of MIG instances. GPUs without any are not in it, and no profile is told."""
    left, right = _TREE_WIDTHS
    sections: dict[int, str] = {}
    for row in all_rows(scenario):
        if row.instance is None:
            continue
        if row.index not in sections:
            about = f"GPU {uuid_of(row.gpu, row.index)} (EntityID: {row.index})"
            sections[row.index] = _cells(_TREE_WIDTHS, (f"GPU {row.index}", about))
        entity = row.label.split()[1]
        if row.compute is None:
            cells = (f"-> I {row.index}/{row.instance.id}", f"GPU Instance (EntityID: {entity})")
        else:
            cells = (
                f"   -> CI {row.index}/{row.instance.id}/{row.compute}",
                f"Compute Instance (EntityID: {entity})",
            )
        sections[row.index] += _cells(_TREE_WIDTHS, cells)
    line = _line(_TREE_WIDTHS)
    title = "| " + "Instance Hierarchy".ljust(left + right - 1) + " |\n"
    return line + title + _line(_TREE_WIDTHS, "=") + line.join(sections.values()) + line


def short_version(scenario: Scenario) -> str:
    """`dcgmi --version`, which needs no engine."""
    return f"\ndcgmi  version: {scenario.version}\n\n"


def long_version(scenario: Scenario) -> str:
    """`dcgmi -v`: how dcgmi was built, and the engine where one answers; exit 0 in any case."""
    build = (
        f"Version : {scenario.version}\nBuild ID : 24637\nBuild Date : 2026-01-09\nBuild Type : Release\n"
        "Commit ID : 63d151480cf54e78592861e42a69b786dc73751b\n"
        f"Branch Name : v{scenario.version}\nCPU Arch : x86_64\n"
        "Build Platform : Linux 5.15.0-generic x86_64\nCRC : 209ebd9bbc4f1659ac404093f5f6f040\n"
    )
    local = "Local build info:\n" if scenario.release >= (4, 7) else ""
    return local + build + (f"\nHostengine build info:\n{build}" if scenario.engine else "")
