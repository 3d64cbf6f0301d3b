"""How the time of a run grows with the program: five shapes in several sizes, each with one race.

    python benchmarks/scaling.py [SHAPE...]

Told are the processor time without that of a program of one line, the exponent since the size before (1 is
linear), the findings, and whether a budget cut something.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parents[1]
HEAD = "import torch\n\n\n"
FORK = "        side.wait_stream(torch.cuda.current_stream())\n        with torch.cuda.stream(side):\n"
JOIN = "        torch.cuda.current_stream().wait_stream(side)\n"


def modules(count: int) -> dict[str, str]:
    """Each has a class with a stream that calls that of the next one; the last does not join its stream."""
    files = {}
    for number in range(count):
        last = number == count - 1
        then = "" if last else f"from m{number + 1} import Stage{number + 1}\n"
        made = "" if last else f"        self.then = Stage{number + 1}()\n"
        files[f"m{number}.py"] = (
            f"{HEAD}{then}class Stage{number}:\n    def __init__(self):\n"
            f"        self.side = torch.cuda.Stream()\n{made}"
            "    def run(self, x: torch.Tensor):\n        side = self.side\n"
            f"{FORK}            y = x * 2\n"
            + ("        return y.sum()\n" if last else f"{JOIN}        return self.then.run(y)\n")
        )
    return files


def calls(count: int) -> dict[str, str]:
    """A chain of functions that hand on a stream; the last one works on it, and nobody waits."""
    chain = [f"def step{n}(x, side):\n    return step{n + 1}(x, side)\n\n\n" for n in range(count - 1)]
    work = f"def step{count - 1}(x, side):\n    if True:\n{FORK}            return x * 2\n\n\n"
    start = "def start(x: torch.Tensor):\n    return step0(x, torch.cuda.Stream()).sum()\n"
    return {"chain.py": f"{HEAD}{''.join(chain)}{work}{start}"}


def operations(count: int) -> dict[str, str]:
    """One function with many kernels on a second stream; the join at its end is missing."""
    start = "def long(x: torch.Tensor):\n    if True:\n        side = torch.cuda.Stream()\n        y = x\n"
    body = "            y = y * 2\n" * count
    return {"long.py": f"{HEAD}{start}{FORK}{body}        return y.sum()\n"}


def methods(count: int) -> dict[str, str]:
    """A class with many methods that work on its stream; one does not join it."""
    each = [
        f"    def step{n}(self, x: torch.Tensor):\n        side = self.side\n{FORK}            y = x * {n}\n"
        f"{'' if n == count // 2 else JOIN}        return y.sum()\n\n"
        for n in range(count)
    ]
    start = "class Many:\n    def __init__(self):\n        self.side = torch.cuda.Stream()\n\n"
    return {"many.py": f"{HEAD}{start}{''.join(each)}"}


def branches(count: int) -> dict[str, str]:
    """A function with many tests of its arguments, and a race behind them."""
    start = "def long(x: torch.Tensor, flags):\n    if True:\n        side = torch.cuda.Stream()\n"
    tests = "".join(f"        if flags[{n}]:\n            x = x + {n}\n" for n in range(count))
    return {"tests.py": f"{HEAD}{start}{tests}{FORK}            y = x * 2\n        return y.sum()\n"}


SHAPES: dict[str, tuple[Callable[[int], dict[str, str]], tuple[int, ...]]] = {
    "modules": (modules, (2, 10, 100)),
    "calls": (calls, (3, 10, 30)),
    "operations": (operations, (100, 1_000, 5_000)),
    "methods": (methods, (2, 20, 200)),
    "branches": (branches, (1, 10, 100)),
}


class Run(NamedTuple):
    cpu: float
    findings: int
    cut: bool


def run(files: dict[str, str]) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "pyproject.toml").touch()
        for name, text in files.items():
            (root / name).write_text(text, encoding="utf-8")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = (sys.executable, "-m", "streamlint", "check", root, "--no-cache", "--output-format", "json")
        done = subprocess.run(command, capture_output=True, check=False, cwd="/")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(cpu, len(found["findings"]), bool(found["summary"]["left_out"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []])
    chosen = parser.parse_args().shapes or list(SHAPES)
    os.environ["PYTHONPATH"] = str(HERE)
    start = min(run(calls(1)).cpu for _ in range(3))
    print(f"{'start':<12} {start:8.2f} s")
    for name in chosen:
        made, sizes = SHAPES[name]
        earlier: tuple[int, float] | None = None
        for size in sizes:
            one = run(made(size))
            cost = max(one.cpu - start, 0.001)
            grown = (
                f"{math.log(cost / earlier[1]) / math.log(size / earlier[0]):6.2f}" if earlier else " " * 6
            )
            print(
                f"{name:<12} {size:6} {cost:8.2f} s {grown} {one.findings} found{', cut' * one.cut}",
                flush=True,
            )
            earlier = (size, cost)


if __name__ == "__main__":
    main()
