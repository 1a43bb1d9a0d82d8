"""`make hardware`: play the known kernels on this machine's first GPU, keep the readings, and print the table and what
sampling costs.

Exit codes: 0 all that was played agrees, 1 some does not, 2 not possible here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.hardware.judge import evaluate
from tools.hardware.price import price, rounds_per_second
from tools.hardware.readings import READINGS
from tools.hardware.runner import NotPossible, NotRestored, run, usual_source
from tools.hardware.table import document, summary


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make hardware", description=__doc__)
    parser.add_argument("--source", default=usual_source(), help="dcgmi or nvml; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each kernel; default: %(default)s")
    parser.add_argument("--folder", type=Path, default=READINGS, help="where the readings go")
    parser.add_argument("--power-limit", type=_percent, help="in percent of the default, for a GEMM; needs root")
    given = parser.parse_args(arguments)
    try:
        kept = run(
            given.folder,
            given.seconds,
            given.source,
            lambda kernel: print(kernel.name, flush=True),
            power_limit=given.power_limit,
        )
        rates = rounds_per_second(given.seconds, given.source, lambda text: print(text, flush=True))
    except (NotPossible, NotRestored) as error:
        print(error, file=sys.stderr)
        return 2
    done, seen = evaluate(kept)
    print(f"\n{document([(done, seen)])}\n\n{summary(seen)}\n{price(rates)}\nReadings: {kept}")
    return 1 if any(each.problems for each in seen.values()) else 0


def _percent(text: str) -> float:
    if not 0 < float(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 1 to 100")
    return float(text)


if __name__ == "__main__":
    sys.exit(main())
