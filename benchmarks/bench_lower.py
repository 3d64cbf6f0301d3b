"""Speed of the prefilter, of the index and of the lowering on a tree of Python files.

Usage: python benchmarks/bench_lower.py PATH
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.lower import index_module
from streamlint.prefilter import may_touch_gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def functions(module: ir.Module) -> Iterator[ir.FunctionDecl]:
    yield from module.functions.values()
    for cls in module.classes.values():
        yield from methods(cls)


def methods(cls: ir.ClassDecl) -> Iterator[ir.FunctionDecl]:
    yield from cls.methods.values()
    yield from cls.setters.values()
    for inner in cls.inner.values():
        yield from methods(inner)


def indexed(path: Path, data: bytes) -> ir.Module | None:
    try:
        return index_module(data.decode(), str(path), path.stem, is_package=False)
    except (ir.LoweringError, UnicodeDecodeError):
        return None


def loads(load: Callable[[], object]) -> bool:
    try:
        load()
    except ir.LoweringError:
        return False
    return True


def report(stage: str, seconds: float, lines: int, rest: str) -> None:
    print(
        f"{stage:<12} {seconds:7.2f} s {lines:>9} lines {lines / max(seconds, 1e-9):>11,.0f} lines/s  {rest}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    root: Path = parser.parse_args().path
    files = [(path, path.read_bytes()) for path in sorted(root.rglob("*.py"))]

    start = time.process_time()
    kept = [(path, data) for path, data in files if may_touch_gpu(data)]
    seconds = time.process_time() - start
    report("prefilter", seconds, sum(d.count(b"\n") for _, d in files), f"{len(kept)} of {len(files)} files")

    start = time.process_time()
    modules = [module for path, data in kept if (module := indexed(path, data)) is not None]
    failed = len(kept) - len(modules)
    report("index", time.process_time() - start, sum(d.count(b"\n") for _, d in kept), f"{failed} failed")

    wanted = [decl for module in modules for decl in functions(module)]
    start = time.process_time()
    failed = sum(not loads(decl.load) for decl in wanted)
    lines = sum(decl.end_line - decl.span.line + 1 for decl in wanted)
    seconds = time.process_time() - start
    rest = f"{len(wanted)} functions, {failed} failed, {len(wanted) / max(seconds, 1e-9):,.0f} a second"
    report("functions", seconds, lines, rest)

    start = time.process_time()
    classes = [cls for module in modules for cls in module.classes.values()]
    bodies = [*(module.load_body for module in modules), *(cls.load_body for cls in classes)]
    failed = sum(not loads(load) for load in bodies)
    print(f"{'bodies':<12} {time.process_time() - start:7.2f} s, modules and classes, {failed} failed")


if __name__ == "__main__":
    main()
