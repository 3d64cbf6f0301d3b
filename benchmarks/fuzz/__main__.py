"""The command: see ``benchmarks/fuzz/__init__.py``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import benchmarks.fuzz
from benchmarks.fuzz.checks import ROOT, Outcome
from benchmarks.fuzz.watch import watched


def main() -> int:
    parser = argparse.ArgumentParser(description=(benchmarks.fuzz.__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=1_000_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--from", dest="folders", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--keep", type=Path, help="a folder for programs that fail")
    options = parser.parse_args()
    started, total, done = time.monotonic(), Outcome(), [0]

    def on(number: int, outcome: Outcome) -> bool:
        done[0] += 1
        total.kinds += outcome.kinds
        total.findings += outcome.findings
        total.slowest = max(total.slowest, outcome.slowest)
        for trouble in outcome.troubles:
            total.troubles.append(trouble)
            print(f"{number} ({trouble.program.kind}): {trouble.what}", flush=True)
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{options.seed}-{number}.py").write_bytes(trouble.program.data)
        return time.monotonic() - started < options.seconds

    watched(options.seed, [ROOT / "fixtures", *options.folders], options.first, options.count, on)
    print(
        f"{done[0]} programs of seed {options.seed} in {time.monotonic() - started:.0f} s "
        f"({dict(sorted(total.kinds.items()))}): {total.findings} findings, the slowest took "
        f"{total.slowest:.1f} s, {len(total.troubles)} troubles"
    )
    return min(len(total.troubles), 1)


if __name__ == "__main__":
    sys.exit(main())
