"""The command line of ``streamlint confirm --observe``."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint import api
from streamlint.confirm.observe.children import LAUNCHER, REQUEST, SITECUSTOMIZE, WHOLE
from streamlint.confirm.observe.observer import together
from streamlint.confirm.observe.outcome import outcome_of
from streamlint.errors import UserError
from streamlint.finding import Confidence
from streamlint.output import Format, Outcome, render, text
from streamlint.output.style import Style, wants_colors
from streamlint.output.terminal import complain, report_file, save, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.confirm.observe.observer import Observed
    from streamlint.run import check

_PACKAGES = Path(__file__).resolve().parents[3]
_EPILOG = """\
PROGRAM runs once, as Python would run it, with its arguments. What it queues on a GPU is judged
with the rules of `check`. A finding says which places were seen to be unordered in this run.
Exit status: 0 nothing found, 1 findings, 2 the program could not be observed."""


def main(argv: Sequence[str]) -> int:
    """Run a program, judge what it did, and return the exit status."""
    options = _parser().parse_args(argv)
    start = time.perf_counter()
    request = _request(options)
    ended, observed = _run(options, request.root)
    if observed is None:
        complain(f"{options.program} {_ending(ended)} and left no record")
        return 2
    if ended:
        complain(f"{options.program} {_ending(ended)}; what it did until then:")
    outcome = outcome_of(request, observed, time.perf_counter() - start)
    _report(options, outcome, observed)
    return 1 if outcome.findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="streamlint confirm --observe",
        description="Run a program on a GPU, and report what its operations were seen not to order.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("-m", dest="module", action="store_true", help="PROGRAM is a module, as in `python -m`")
    add("--python", default=sys.executable, help="interpreter of the program's environment")
    add("--select", action="append", default=[], metavar="CODES", help="only these codes or prefixes")
    add("--ignore", action="append", default=[], metavar="CODES", help="not these codes or prefixes")
    add(
        "--min-confidence",
        choices=[each.value for each in reversed(Confidence)],
        help="hide findings less sure than this (default: likely)",
    )
    add("--output-format", choices=[each.value for each in Format], default=Format.FULL.value)
    add("--output", type=report_file, metavar="FILE", help="write the findings to a file")
    add("program", metavar="PROGRAM[::FUNCTION]", help="a script, a function in it, or a module with -m")
    add("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="arguments of the program")
    return parser


def _request(options: argparse.Namespace) -> check.Request:
    script = Path(options.program.partition("::")[0])
    if not options.module and not script.is_file():
        raise UserError(f"{script} is not a file")
    return api.request(
        (Path.cwd() if options.module else script,),
        select=options.select,
        ignore=options.ignore,
        min_confidence=Confidence(options.min_confidence) if options.min_confidence else None,
        jobs=1,
    )


def _run(options: argparse.Namespace, root: Path) -> tuple[int, Observed | None]:
    """The exit status of the program, and what was observed of it and of Python processes that it started."""
    program, _, function = options.program.partition("::")
    arguments = [word for i, word in enumerate(options.arguments) if i or word != "--"]
    # A process that outlives the program, as multiprocessing keeps some, may write while all is removed.
    with tempfile.TemporaryDirectory(prefix="streamlint-", ignore_cleanup_errors=True) as folder:
        results, hooks, request = Path(folder, "results"), Path(folder, "hooks"), Path(folder, "request.json")
        results.mkdir()
        hooks.mkdir()
        (hooks / "sitecustomize.py").write_text(SITECUSTOMIZE, "utf-8")
        content = {
            "program": program if options.module else str(Path(program).resolve()),
            "module": options.module,
            "function": function,
            "arguments": arguments,
            "root": str(root),
            "results": str(results),
        }
        request.write_text(json.dumps(content), "utf-8")
        path = os.pathsep.join(filter(None, (str(hooks), str(_PACKAGES), os.environ.get("PYTHONPATH", ""))))
        # What a tool reads from standard output must not be mixed with what the program prints.
        aside = options.output_format != Format.FULL.value and options.output is None
        ended = subprocess.run(
            [options.python, "-m", LAUNCHER, str(request)],
            env={**os.environ, "PYTHONPATH": path, REQUEST: str(request)},
            stdout=sys.stderr if aside else None,
            check=False,
        ).returncode
        seen = [pickle.loads(path.read_bytes()) for path in sorted(results.glob(f"*{WHOLE}"))]  # noqa: S301
        return ended, together(seen)


def _ending(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


def _report(options: argparse.Namespace, outcome: Outcome, observed: Observed) -> None:
    form = Format(options.output_format)
    style = Style(options.output is None and wants_colors("auto", sys.stdout))
    written = render(form, outcome, style)
    if options.output is not None:
        save(options.output, written)
    else:
        write(written, sys.stdout)
    aside = sys.stdout if form is Format.FULL and options.output is None else sys.stderr
    closing = text.observation(outcome, observed.events, observed.blind, style, observed.processes)
    write(f"{closing}\n", aside)
