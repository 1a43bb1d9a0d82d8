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
    bench_accounting,
    bench_attacks,
    bench_compute,
    bench_daemon,
    bench_dashboards,
    bench_fleet,
    bench_health,
    bench_inputs,
    bench_memory,
    bench_mfu,
    bench_misbehaving,
    bench_owners,
    bench_parse,
    bench_render,
    bench_rules,
    bench_scrape,
    bench_sequences,
    bench_serve,
    bench_soak,
    bench_square,
    bench_tick,
    bench_top,
    bench_translate,
    bench_web,
    bench_workloads,
)
from tools.bench.figure import HEADER, Bench, Figure, Skipped, line

BENCHES: Mapping[str, ModuleType] = {
    "attacks": bench_attacks,
    "scrape": bench_scrape,
    "parse": bench_parse,
    "translate": bench_translate,
    "compute": bench_compute,
    "accounting": bench_accounting,
    "health": bench_health,
    "inputs": bench_inputs,
    "render": bench_render,
    "tick": bench_tick,
    "sequences": bench_sequences,
    "serve": bench_serve,
    "daemon": bench_daemon,
    "memory": bench_memory,
    "mfu": bench_mfu,
    "misbehaving": bench_misbehaving,
    "owners": bench_owners,
    "workloads": bench_workloads,
    "soak": bench_soak,
    "fleet": bench_fleet,
    "dashboards": bench_dashboards,
    "rules": bench_rules,
    "square": bench_square,
    "top": bench_top,
    "web": bench_web,
}


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    arguments.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHES)}; all by default")
    names = arguments.parse_args().names or list(BENCHES)
    for unknown in set(names) - BENCHES.keys():
        arguments.error(f"there is no benchmark {unknown!r}: {', '.join(BENCHES)}")
    print(
        f"Python {platform.python_version()}, prometheus_client {version('prometheus-client')}, uvicorn"
        f" {version('uvicorn')}; {os.cpu_count()} cores of {_processor()}, load {os.getloadavg()[0]:.2f}"
    )
    figures = [figure for name in names for figure in _print(BENCHES[name])]
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


def _sum_up(figures: Sequence[Figure]) -> None:
    with_bar = [figure for figure in figures if figure.bar]
    missed = [figure for figure in with_bar if not figure.met]
    print(f"\n{len(with_bar) - len(missed)} of {len(with_bar)} bars are met; load {os.getloadavg()[0]:.2f} at the end")
    for figure in missed:
        print(f"MISSED {line(figure).strip()}")


if __name__ == "__main__":
    main()
