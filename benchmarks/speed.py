"""How long a run takes beside ruff and flake8, all in one go: cold, again, and with one file changed.

    python benchmarks/speed.py TREE... [--edits 5] [--jobs 1] [--flake8] [--cold]

Each tree is copied first, since files of it are edited; its cache is a folder of its own. Ratios count time
of processors, which says something on a machine that does other things too; the wall time stands beside it.
Without ``--cold`` the run that fills the cache is not told.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from streamlint.prefilter import may_touch_gpu

HERE = Path(__file__).parents[1]
GPU = """\
import torch


def total(x: torch.Tensor):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = x * 2
    return y.sum()
"""


class Taken(NamedTuple):
    wall: float
    cpu: float

    def beside(self, other: Taken) -> str:
        return f"{self.wall:8.2f} s {self.cpu:8.2f} s cpu {self.cpu / other.cpu:8.2f} x"


def taken(*command: str | Path) -> Taken:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, cwd="/")
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def best(*command: str | Path, runs: int = 5) -> Taken:
    return min((taken(*command) for _ in range(runs)), key=lambda each: each.cpu)


def streamlint(*arguments: str | Path) -> tuple[str | Path, ...]:
    return (sys.executable, "-m", "streamlint", *arguments)


def beside(name: str) -> str | None:
    """A linter that is installed beside this Python, or on the path."""
    own = Path(sys.executable).with_name(name)
    return str(own) if own.exists() else shutil.which(name)


def of_tree(tree: Path, work: Path, options: argparse.Namespace) -> None:
    root, cache = work / tree.name, work / f"cache-{tree.name}"
    shutil.copytree(tree, root, symlinks=True)
    (root / "pyproject.toml").touch()
    files = sorted(root.rglob("*.py"))
    print(f"\n{tree.name}: {len(files)} files")
    ruff = best(str(beside("ruff")), "check", "--no-cache", "--isolated", "-q", root)
    print(f"  ruff check --no-cache      {ruff.beside(ruff)}")
    flake8 = beside("flake8") if options.flake8 else None
    if flake8 is not None:
        print(f"  flake8                     {best(flake8, '--isolated', root, runs=1).beside(ruff)}")
    run = streamlint(root, "--cache-dir", cache, "--jobs", str(options.jobs))
    cold = taken(*run)
    if options.cold:
        print(f"  streamlint, cold           {cold.beside(ruff)}")
    taken(*run)  # by now no file is too young to be known by its times
    print(f"  streamlint, again          {best(*run).beside(ruff)}")
    chosen = random.Random(1)  # noqa: S311
    with_functions = [file for file in files if bodies(file)]
    for what, some in (
        ("any", with_functions),
        ("GPU", [file for file in with_functions if may_touch_gpu(file.read_bytes())]),
    ):
        for added in ("# {}", "_edited = {}"):
            edited = []
            for file in chosen.sample(some, min(options.edits, len(some))):
                edit(file, chosen, added.format(chosen.random()))
                edited.append(taken(*run))
            edited.sort(key=lambda each: each.cpu)
            line = added.format("...")
            print(f"  a line `{line}` in a function ({what}): median {edited[len(edited) // 2].beside(ruff)}")
            print(f"      most   {edited[-1].beside(ruff)}")


def bodies(file: Path) -> list[tuple[int, int]]:
    """Where the bodies of functions begin that have lines of their own: line and column."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return []
    functions = (each for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
    firsts = ((each.lineno, each.body[0]) for each in functions)
    return [(first.lineno, first.col_offset) for line, first in firsts if first.lineno > line]


def edit(file: Path, chosen: random.Random, added: str) -> None:
    """Puts a line into some function."""
    line, column = chosen.choice(bodies(file))
    text = file.read_text("utf-8").split("\n")
    file.write_text("\n".join([*text[: line - 1], " " * column + added, *text[line - 1 :]]), "utf-8")


def of_start(work: Path) -> None:
    folder = work / "hook"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "plain.py").write_text("x = 1\n", encoding="utf-8")
    (folder / "gpu.py").write_text(GPU, encoding="utf-8")
    ruff = best(str(beside("ruff")), "check", "--no-cache", "--isolated", "-q", folder)
    print("start-up")
    print(f"  python -c pass             {best(sys.executable, '-c', 'pass').beside(ruff)}")
    print(f"  ruff, two files            {ruff.beside(ruff)}")
    if (flake8 := beside("flake8")) is not None:
        print(f"  flake8, two files          {best(flake8, '--isolated', folder).beside(ruff)}")
    for name, arguments in (
        ("--version", ("--version",)),
        ("no GPU code", (folder / "plain.py", "--no-cache")),
        ("a file with GPU code", (folder / "gpu.py", "--no-cache")),
        ("the same, known", (folder / "gpu.py", "--cache-dir", work / "cache")),
    ):
        taken(*streamlint(*arguments))
        print(f"  streamlint, {name:<22} {best(*streamlint(*arguments)).beside(ruff)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--edits", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--flake8", action="store_true")
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    # As an installed program has it: else a third of each start is the compilation of its modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]).strip(
        os.pathsep
    )
    with tempfile.TemporaryDirectory() as work:
        of_start(Path(work))
        for tree in options.trees:
            of_tree(tree.resolve(), Path(work), options)


if __name__ == "__main__":
    main()
