"""`make hardware`: play the known kernels on this machine's first GPU, keep the readings, and print the table and what
sampling costs.

Exit codes: 0 all agree, 1 some do not, 2 not possible here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from support.hardware.judge import evaluate
from support.hardware.kernels import KERNELS
from support.hardware.price import price, rounds_per_second
from support.hardware.readings import READINGS
from support.hardware.runner import NotPossible, run, usual_source
from support.hardware.table import document, summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="make hardware", description=__doc__)
    parser.add_argument("--source", default=usual_source(), help="dcgmi or nvml; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each kernel; default: %(default)s")
    parser.add_argument("--folder", type=Path, default=READINGS, help="where the readings go")
    given = parser.parse_args()
    try:
        kept = run(given.folder, given.seconds, given.source, lambda kernel: print(kernel.name, flush=True))
        rates = rounds_per_second(given.seconds, given.source, lambda text: print(text, flush=True))
    except NotPossible as error:
        print(error, file=sys.stderr)
        return 2
    done, seen = evaluate(kept)
    print(f"\n{document([(done, seen)])}\n\n{summary(seen)}\n{price(rates)}\nReadings: {kept}")
    return 0 if set(seen) == {k.name for k in KERNELS} and not any(each.problems for each in seen.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
