"""Compares the analyzer with the oracle on random programs.

    python -m benchmarks.random_programs --seed 1 --count 500
    python -m benchmarks.random_programs --seed 1 --count 2000 --keep /tmp/differences
    python -m benchmarks.random_programs --seed 1 --first 17 --count 1 --show

Number ``n`` of a seed is always the same pair: a program that is right, and the same one without one of its
ordering statements, which the oracle judges again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.random_programs.compare import Outcome, Pair, codes, compare, pair_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="a folder for programs on which the two differ")
    parser.add_argument("--show", action="store_true", help="print the programs")
    options = parser.parse_args()
    started, outcome = time.process_time(), Outcome()

    def on(pair: Pair, what: str, text: str) -> None:
        print(f"{pair.number} ({pair.library}, {pair.shape}): {what} {codes(text)}", flush=True)
        if options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            name = f"p{options.seed}_{pair.number}_{what}.py"
            (options.keep / name).write_text(text, encoding="utf-8")

    for number in range(options.first, options.first + options.count):
        pair = pair_of(options.seed, number)
        if options.show:
            print(f"# --- {number}: right\n{pair.right}\n# --- {number}: {pair.verdict.value}\n{pair.wrong}")
        compare(pair, outcome, on)
    seconds = time.process_time() - started
    print(f"seed {options.seed}, {options.count} pairs, {seconds:.0f} s: {outcome.told()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
