"""The same functions again and again on a GPU: does ``streamlint confirm`` say the same each time?

python -m tests.confirm_repeats run --keep seen.jsonl [--times 20] [--jobs 8] [--framework numba ...]
python -m tests.confirm_repeats table seen.jsonl [another.jsonl ...]

Every rule family and every framework has a wrong function here, and its right twin. A wrong one is
run by its findings, in a right one each statement is held back in turn. The runs of a framework
share a process in each repeat, as those of ``--each`` do; with ``--apart`` each has its own, as the
findings of the command do. (Many processes that load all kernels at once wait for each other in the
driver.) What was seen is written as it comes, so that a run that is cut short is not lost.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamlint.confirm.run.runner import Confirmation, confirm_all
from streamlint.confirm.run.server import Limits
from streamlint.confirm.verdict import Verdict
from streamlint.witness import ByTime
from tests.expectations import FIXTURES, rule_of
from tests.test_confirm_gpu import Case, plans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PAIRS = (
    "torch/sl101_unordered_read::prefetch",
    "torch/sl401_missing_record_stream::dropped_after_fork",
    "torch/sl501_sync_in_capture::asks",
    "torch/sl701_elapsed_before_sync::no_wait",
    "torch/sl902_implicit_sync_in_loop::item",
    "cuda_runtime/sl301_cuda_call_in_host_callback::closure",
    "cuda_runtime/sl402_freed_while_in_use::freed_on_owner",
    "cuda_driver/sl101_unordered_read::two_streams",
    "cuda_driver/sl504_graph_buffer_race::read_at_once",
    "cuda_core/sl201_host_read_before_sync::read_at_once",
    "cuda_core/sl601_handoff_without_stream::address",
    "cupy/sl104_launch_off_stream::launch",
    "cupy/sl201_host_read_before_sync::get_into_pinned",
    "numba/sl102_unordered_write::handed_over",
    "numba/sl201_host_read_before_sync::copy_into_pinned",
)


def functions(frameworks: Sequence[str]) -> Iterator[Case]:
    """Both functions of each pair; of one about time only the wrong one, since a right one waits as well."""
    for pair in PAIRS:
        file, _, name = pair.partition("::")
        if frameworks and file.partition("/")[0] not in frameworks:
            continue
        wrong = Case(FIXTURES / f"{file}.py", f"{name}_bad", bad=True)
        yield wrong
        if not isinstance(wrong.witness, ByTime):
            yield replace(wrong, function=f"{name}_ok", bad=False)


def row(case: Case, repeat: int, done: Sequence[Confirmation], seconds: float) -> dict[str, Any]:
    """What one repeat of a function showed."""
    shown = next((c for c in done if c.decision.verdict is Verdict.CONFIRMED), None)
    decision = (shown or done[0]).decision
    wrong = decision.difference
    return {
        "function": str(case),
        "rule": rule_of(case.path),
        "bad": case.bad,
        "repeat": repeat,
        "verdicts": [c.decision.verdict.name for c in done],
        "reason": decision.reason,
        "difference": None if wrong is None else [wrong.gated, wrong.reference],
        "seconds_together": round(seconds, 1),
    }


def run(options: argparse.Namespace) -> None:
    """All repeats, the functions of a framework with one server each time."""
    cases: dict[str, list[Case]] = {}
    for case in functions(options.framework):
        cases.setdefault(case.path.parent.name, []).append(case)
    # The analysis is not what is repeated; done here, each file is analyzed once.
    planned = {case: plans(case) for own in cases.values() for case in own}
    limits = Limits(timeout_s=60, shared=not options.apart)
    writing = threading.Lock()
    start = time.monotonic()

    def one(own: Sequence[Case], repeat: int) -> None:
        if time.monotonic() - start > options.limit:
            return
        began = time.monotonic()
        done = confirm_all([plan for case in own for plan in planned[case]], limits)
        seconds = time.monotonic() - began
        with writing, options.keep.open("a", encoding="utf-8") as kept:
            for case in own:
                mine = [c for c in done if (c.plan.path, c.plan.function) == (case.path, case.function)]
                kept.write(json.dumps(row(case, repeat, mine, seconds)) + "\n")

    with ThreadPoolExecutor(options.jobs) as pool:
        # Repeat by repeat: where the time is over too early, all functions have had as many.
        again = range(options.times)
        waiting = [pool.submit(partial(one, own, repeat)) for repeat in again for own in cases.values()]
        for future in waiting:
            future.result()


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Markdown: how often each pair ran, and how often each verdict came."""
    by_pair: dict[str, dict[bool, list[dict[str, Any]]]] = defaultdict(lambda: {True: [], False: []})
    for one in rows:
        by_pair[one["function"].removesuffix("_bad").removesuffix("_ok")][one["bad"]].append(one)
    lines = ["| functions | rule | times | wrong | right | evidence |", "|---|---|---|---|---|---|"]
    for pair, seen in sorted(by_pair.items()):
        times = "/".join(str(len(seen[bad])) for bad in (True, False) if seen[bad])
        rule = (seen[True] or seen[False])[0]["rule"]
        evidence = seen[True][0]["reason"] if seen[True] else ""
        if seen[True] and seen[True][0]["difference"]:
            evidence = "`{}` for `{}`".format(*seen[True][0]["difference"])
        wrong, right = _verdicts(seen[True]), _verdicts(seen[False])
        lines.append(f"| {pair} | {rule} | {times} | {wrong} | {right} | {evidence[:90]} |")
    return "\n".join(lines) + "\n"


_SAYS_MOST = ("CONFIRMED", "NOISY", "NOT_RUN", "UNORDERED", "ORDERED", "NOT_REACHED")


def _verdicts(rows: Sequence[dict[str, Any]]) -> str:
    says = Counter(min(one["verdicts"], key=_SAYS_MOST.index) for one in rows)
    return ", ".join(f"{name.lower().replace('_', ' ')} {count}" for name, count in says.most_common()) or "-"


def main(words: Sequence[str]) -> None:
    """Run, or print what runs have kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.confirm_repeats")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument(
        "--keep", type=Path, required=True, metavar="FILE", help="what was seen is added here"
    )
    running.add_argument("--times", type=int, default=20)
    running.add_argument("--jobs", type=int, default=8, help="frameworks at the same time")
    running.add_argument("--apart", action="store_true", help="each run in a process of its own")
    running.add_argument("--limit", type=float, default=1e9, metavar="S", help="start none after this time")
    running.add_argument("--framework", action="append", default=[], help="only its functions")
    commands.add_parser("table").add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(words)
    if options.command == "run":
        run(options)
        return
    kept = [line for file in options.files for line in file.read_text("utf-8").splitlines()]
    sys.stdout.write(table(json.loads(line) for line in kept))


if __name__ == "__main__":
    main(sys.argv[1:])
