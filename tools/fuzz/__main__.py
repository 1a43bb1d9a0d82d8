"""Fuzz targets for some time each: `python -m tools.fuzz [--seconds N] [--jobs N] [NAME ...]`.

Inputs that reach new code are kept in `build/fuzz/corpus/NAME` for the next run, findings in `build/fuzz/findings`.
The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.fuzz.target import MAX_BYTES
from tools.fuzz.targets import NAMES, REGRESSIONS, load, regressions

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
STUCK_SECONDS = 300
"""Wall-clock time after which one input is a finding: generous, as the machine may be busy."""

MAX_MEGABYTES = 2048

_STATISTIC = re.compile(r"^stat::number_of_executed_units: *(\d+)|^#\d+.* cov: (\d+)", re.MULTILINE)
_PROGRESS = re.compile(r"#\d+\t|INFO|stat::|0x")
_SHOWN_LINES = 60


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one target.

    Attributes:
        inputs: how many were checked.
        coverage: branches of pulsed's code that they reached.
        findings: files with the inputs that failed.
        output: the end of the fuzzer's output, where there is a finding.
    """

    name: str
    inputs: int
    coverage: int
    findings: Sequence[Path]
    output: str


def fuzz(name: str, seconds: int) -> Run:
    """Fuzz one target in a process of its own."""
    corpus, findings = BUILD / "corpus" / name, BUILD / "findings"
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(findings.glob(f"{name}-*"))
    with tempfile.TemporaryDirectory(prefix="pulsed-fuzz-", dir=_memory()) as scratch:
        seeds, words = Path(scratch, "seeds"), Path(scratch, "words")
        seeds.mkdir()
        target = load(name)
        for number, seed in enumerate([*target.seeds(), *(path.read_bytes() for path in regressions(name))]):
            (seeds / str(number)).write_bytes(seed)
        words.write_text("".join(f'"{_escaped(token)}"\n' for token in target.tokens))
        options = {
            "max_total_time": seconds,
            "max_len": MAX_BYTES,
            "timeout": STUCK_SECONDS,
            "report_slow_units": STUCK_SECONDS,  # wall-clock time too; its reports lie beside the findings
            "rss_limit_mb": MAX_MEGABYTES,
            **({"dict": words} if target.tokens else {}),  # libFuzzer takes no empty one
            "artifact_prefix": f"{findings}/{name}-",
            "print_final_stats": 1,
        }
        command = [
            sys.executable,
            "-m",
            "tools.fuzz.child",
            name,
            *(f"-{key}={value}" for key, value in options.items()),
        ]
        done = subprocess.run(
            [*command, corpus, seeds],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": scratch, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    output = done.stderr + done.stdout
    found = sorted(set(findings.glob(f"{name}-*")) - before)
    pairs = _STATISTIC.findall(output)
    inputs, coverage = (max([int(pair[place]) for pair in pairs if pair[place]], default=0) for place in (0, 1))
    words_of_it = [line for line in output.splitlines() if not _PROGRESS.match(line)][-_SHOWN_LINES:]
    return Run(name, inputs, coverage, found, "\n".join(words_of_it) if done.returncode or found else "")


def _memory() -> str | None:
    """Return a folder in memory, as targets sync files; None if there is none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _escaped(token: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in token)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"targets (default: all): {', '.join(NAMES)}")
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time (default: %(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}; known are {', '.join(NAMES)}")
    has_failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        for run in pool.map(partial(fuzz, seconds=options.seconds), options.names or NAMES):
            print(f"{run.name:16} {run.inputs:>9} inputs {run.coverage:>6} branches", flush=True)
            if run.output:
                has_failed = True
                print(run.output)
                for path in run.findings:
                    kept = (REGRESSIONS / run.name / "NAME").relative_to(ROOT)
                    print(f"FINDING: {path.relative_to(ROOT)}; mend the cause, and keep the input as {kept}")
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
