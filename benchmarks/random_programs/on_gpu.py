"""Compares what a GPU shows of random programs with what the oracle says of them.

    python -m benchmarks.random_programs.on_gpu observe --seed 11 --count 150
    python -m benchmarks.random_programs.on_gpu each --seed 11 --count 30
    python -m benchmarks.random_programs.on_gpu findings --seed 11 --count 30

``observe`` runs each program once, as ``streamlint confirm --observe`` does. ``each`` holds back every
statement of the right ones, and ``findings`` the earlier operation of each finding of the wrong ones;
both compare what buffers hold at the end. Prints a line of JSON for each program on which the GPU and the
oracle differ, then the figures.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.random_programs.compare import ADVICE, pair_of
from benchmarks.random_programs.oracle import Verdict
from streamlint.confirm.observe.observer import Observer
from streamlint.confirm.plan.plans import Plan, Target, of_each_statement, of_findings
from streamlint.confirm.run.runner import Confirmation, confirm_all
from streamlint.confirm.run.server import Limits
from streamlint.confirm.verdict import Verdict as Shown
from streamlint.finding import leading
from streamlint.run.engine import Settings, analyze

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.random_programs.compare import Pair

REPOSITORY = Path(__file__).parents[2]
TOGETHER = 12
"""Programs whose runs are given to the processes at once; the figures so far are printed after each lot."""


def programs(options: argparse.Namespace, folder: Path) -> dict[Path, tuple[Pair, bool]]:
    """A file for each program that the oracle calls racy (true) or clean."""
    written = {}
    for number in range(options.first, options.first + options.count):
        pair = pair_of(options.seed, number, returns=options.what != "observe")
        if options.library and pair.library not in options.library:
            continue
        texts = {pair.right: Verdict.CLEAN}
        texts.setdefault(pair.wrong, pair.verdict)
        for text, verdict in texts.items():
            if verdict is Verdict.OPEN:
                continue
            racy = verdict is Verdict.RACES
            path = folder / f"p{options.seed}_{number}_{'racy' if racy else f'clean{len(written)}'}.py"
            path.write_text(text, "utf-8")
            written[path] = pair, racy
    return written


def observe(options: argparse.Namespace, folder: Path) -> None:
    """Say of which programs something at ``likely`` was observed."""
    known = {str(path): entry for path, entry in programs(options, folder).items()}
    counts: Counter[str] = Counter()
    for row in _observed(list(known), options.jobs):
        pair, racy = known[row["file"]]
        sure = [f for f in row.get("findings", ()) if f["confidence"] != "possible"]
        sure = [f for f in sure if not f["code"].startswith(ADVICE)]
        wrong = row.get("raised") or row.get("ended")
        kind = "racy" if racy else "clean"
        counts[kind] += 1
        counts[f"{kind} found"] += bool(sure)
        counts[f"{kind} {pair.library}"] += 1
        counts[f"{kind} {pair.library} found"] += bool(sure)
        if wrong or bool(sure) != racy:
            _tell(pair, kind, {"row": row})
    print(json.dumps(dict(sorted(counts.items()))), flush=True)


def _observed(files: Sequence[str], jobs: int) -> Iterable[dict[str, Any]]:
    """A row for each file; each process runs its share one after the other."""
    with ThreadPoolExecutor(jobs) as pool:
        for rows in pool.map(_share, [files[number::jobs] for number in range(jobs)]):
            yield from rows


def _share(files: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of these; what a program that crashes leaves undone the next process does."""
    rows: list[dict[str, Any]] = []
    while len(rows) < len(files):
        command = [sys.executable, "-m", "benchmarks.random_programs.on_gpu", "run", *files[len(rows) :]]
        done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=False)
        rows += [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"file"')]
        if done.returncode and len(rows) < len(files):
            rows.append({"file": files[len(rows)], "ended": done.returncode})
    return rows


def run(files: Sequence[str]) -> None:
    """Observe programs in this process. The device is idle when one of them has ended."""
    observer = Observer(Path(files[0]).parent)
    observer.install()
    for file in files:
        raised = ""
        sys.path.insert(0, str(Path(file).parent))
        try:
            importlib.import_module(Path(file).stem).main()
        except Exception as error:
            raised = f"{type(error).__name__}: {error}".splitlines()[0]
        found = [
            {"code": f.code, "line": f.primary.line, "confidence": f.confidence.value, "message": f.message}
            for f in observer.take().findings
        ]
        observer.forget()
        print(json.dumps({"file": file, "raised": raised, "findings": found}), flush=True)
    os._exit(0)


def confirm(options: argparse.Namespace, folder: Path) -> None:
    """Say what was confirmed: nothing may be in a clean program."""
    counts: Counter[str] = Counter()
    plans: dict[Path, list[Plan]] = {}
    known = programs(options, folder)
    for path, (_, racy) in known.items():
        if racy == (options.what == "findings"):
            target = Target(path, "main")
            plans[path] = _of_findings(target) if racy else list(of_each_statement(target, folder))
    for start in range(0, len(plans), TOGETHER):
        some = list(plans)[start : start + TOGETHER]
        every = [plan for path in some for plan in plans[path]]
        done = confirm_all(every, Limits(options.delay, timeout_s=30, shared=True), options.jobs)
        for path in some:
            _count(*known[path], [c for c in done if c.plan.path == path], counts)
        print(json.dumps(dict(sorted(counts.items()))), flush=True)


def _count(pair: Pair, racy: bool, own: list[Confirmation], counts: Counter[str]) -> None:
    verdicts = Counter(c.decision.verdict for c in own)
    kind = "racy" if racy else "clean"
    counts[kind] += 1
    counts["runs"] += len(own)
    confirmed = verdicts[Shown.CONFIRMED] > 0
    counts[f"{kind} confirmed"] += confirmed
    odd = [c for c in own if c.decision.verdict in (Shown.NOISY, Shown.NOT_RUN)]
    if confirmed != racy or odd:
        told = [f"{c.plan.earlier}: {c.decision.verdict.value} {c.decision.reason}" for c in odd or own]
        _tell(pair, kind, {"verdicts": {v.value: n for v, n in verdicts.items()}, "told": told[:6]})


def _of_findings(target: Target) -> list[Plan]:
    root = target.path.parent
    found = analyze(root, [target.path], Settings()).findings
    return of_findings(target, root, leading([f for f in found if not f.code.startswith(ADVICE)]))


def _tell(pair: Pair, kind: str, what: dict[str, object]) -> None:
    told = {"number": pair.number, "library": pair.library, "shape": pair.shape, "is": kind, **what}
    print(json.dumps(told), flush=True)


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("observe", "each", "findings"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--delay", type=float, default=200.0, help="milliseconds")
    parser.add_argument("--library", action="append", default=[], help="only its programs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="random") as folder:
        (observe if options.what == "observe" else confirm)(options, Path(folder))


if __name__ == "__main__":
    main()
