"""Runs benchmarks and prints their figures: `python -m tools.bench [NAME ...]`."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import ModuleType

from tools.bench import (
    bench_attacks,
    bench_daemon,
    bench_dashboards,
    bench_fleet,
    bench_inputs,
    bench_install,
    bench_memory,
    bench_parse,
    bench_rules,
    bench_sequences,
    bench_soak,
    bench_tick,
)
from tools.bench.figure import HEADER, Bench, Figure, Skipped, bar_line, line

OF_BARS: Mapping[str, ModuleType] = {
    "daemon": bench_daemon,
    "memory": bench_memory,
    "attacks": bench_attacks,
    "fleet": bench_fleet,
    "parse": bench_parse,
    "install": bench_install,
}
"""Run by default: what pulsed promises."""

OTHERS: Mapping[str, ModuleType] = {
    "tick": bench_tick,
    "dashboards": bench_dashboards,
    "rules": bench_rules,
    "sequences": bench_sequences,
    "inputs": bench_inputs,
    "soak": bench_soak,
}

BENCHES = {**OF_BARS, **OTHERS}


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    arguments.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHES)}; by default the first {len(OF_BARS)}"
    )
    names = arguments.parse_args().names or list(OF_BARS)
    for unknown in set(names) - BENCHES.keys():
        arguments.error(f"there is no benchmark {unknown!r}: {', '.join(BENCHES)}")
    print(
        f"Python {platform.python_version()}, prometheus_client {version('prometheus-client')};"
        f" {os.cpu_count()} cores of {_processor()}, load {os.getloadavg()[0]:.2f}"
    )
    figures = {name: _print(BENCHES[name]) for name in names}
    _sum_up(figures)


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for row in file:
            if row.startswith("model name"):
                return row.partition(":")[2].strip()
    return platform.machine()


def _print(module: ModuleType) -> list[Figure]:
    """Run one benchmark, printing each figure as it comes."""
    run: Bench = module.run
    print(f"\n{(module.__doc__ or '').splitlines()[0]}\n{HEADER}", flush=True)
    figures = []
    try:
        for figure in run():
            print(line(figure), flush=True)
            figures.append(figure)
    except Skipped as reason:
        print(f"  SKIPPED: {reason}", flush=True)
    return figures


def _sum_up(figures: Mapping[str, Sequence[Figure]]) -> None:
    """Print the bars, met or not."""
    with_bar = [(name, figure) for name, found in figures.items() for figure in found if figure.bar]
    met = sum(figure.met for _, figure in with_bar)
    print(f"\n{met} of {len(with_bar)} bars are met; load {os.getloadavg()[0]:.2f} at the end")
    for name, figure in with_bar:
        print(f"  {'ok' if figure.met else 'MISSED':7} {name:9} {bar_line(figure)}")


if __name__ == "__main__":
    main()
