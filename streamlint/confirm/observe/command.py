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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.errors import UserError
from streamlint.files import write_whole
from streamlint.finding import Confidence, Report, Seen
from streamlint.judging.judge import merge
from streamlint.output import Format, Outcome, render, text
from streamlint.output.style import Style, wants_colors
from streamlint.run import check
from streamlint.settings.catalog import Selection, catalog, parse_selectors
from streamlint.settings.config import find_root, load, with_known_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.confirm.observe.observer import Observed
    from streamlint.finding import Finding

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
        print(f"streamlint: {options.program} {_ending(ended)} and left no record", file=sys.stderr)
        return 2
    if ended:
        print(f"streamlint: {options.program} {_ending(ended)}; what it did until then:", file=sys.stderr)
    outcome = _outcome(request, observed, time.perf_counter() - start)
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
    add("--output", type=Path, metavar="FILE", help="write the findings to a file")
    add("program", metavar="PROGRAM[::FUNCTION]", help="a script, a function in it, or a module with -m")
    add("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="arguments of the program")
    return parser


def _request(options: argparse.Namespace) -> check.Request:
    script = Path(options.program.partition("::")[0])
    if not options.module and not script.is_file():
        raise UserError(f"{script} is not a file")
    root, is_project = find_root([Path.cwd() if options.module else script])
    rules = catalog()
    config = with_known_codes(load(root, None), rules)
    return check.Request(
        root=root,
        is_project=is_project,
        paths=(),
        config=config,
        rules=rules,
        selection=Selection(
            parse_selectors(options.select, rules) or config.select,
            config.ignore + parse_selectors(options.ignore, rules),
        ),
        min_confidence=Confidence(options.min_confidence or config.min_confidence),
        jobs=1,
    )


def _run(options: argparse.Namespace, root: Path) -> tuple[int, Observed | None]:
    """The exit status of the program, and what was observed if it could be written down."""
    program, _, function = options.program.partition("::")
    arguments = [word for i, word in enumerate(options.arguments) if i or word != "--"]
    with tempfile.TemporaryDirectory(prefix="streamlint-") as folder:
        result, request = Path(folder, "result"), Path(folder, "request.json")
        content = {
            "program": program if options.module else str(Path(program).resolve()),
            "module": options.module,
            "function": function,
            "arguments": arguments,
            "root": str(root),
            "result": str(result),
        }
        request.write_text(json.dumps(content), "utf-8")
        path = os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH", ""))))
        # What a tool reads from standard output must not be mixed with what the program prints.
        aside = options.output_format != Format.FULL.value and options.output is None
        ended = subprocess.run(
            [options.python, "-m", "streamlint.confirm.observe.child", str(request)],
            env={**os.environ, "PYTHONPATH": path},
            stdout=sys.stderr if aside else None,
            check=False,
        ).returncode
        observed: Observed | None = pickle.loads(result.read_bytes()) if result.is_file() else None  # noqa: S301
        return ended, observed


def _ending(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


def _outcome(request: check.Request, observed: Observed, seconds: float) -> Outcome:
    from streamlint.run.engine import Session, Settings

    places = [span for f in observed.findings for span in (f.primary, f.earlier) if span is not None]
    files = tuple(sorted({request.root / span.path for span in places if span.path}))
    there = tuple(path for path in files if path.is_file())
    session = Session(request.root, there, Settings(), {})
    findings = merge((f for f in observed.findings if f.primary.path), session.statement)
    report = Report(_marked(request, findings, there), (), files=len(there), analyzed=len(there))
    # Without files in focus no comment is called unused: other runs may need it.
    return check.outcome(request, report, (), seconds)


def _marked(
    request: check.Request, findings: tuple[Finding, ...], files: tuple[Path, ...]
) -> tuple[Finding, ...]:
    """Each finding with the word whether static analysis predicts it too."""
    from streamlint.run.engine import Settings, analyze

    settings = Settings(default_stream=request.config.default_stream)
    predicted = {finding.fingerprint for finding in analyze(request.root, files, settings).findings}
    return tuple(
        replace(finding, seen=Seen.BOTH if finding.fingerprint in predicted else Seen.OBSERVED)
        for finding in findings
    )


def _report(options: argparse.Namespace, outcome: Outcome, observed: Observed) -> None:
    form = Format(options.output_format)
    style = Style(options.output is None and wants_colors("auto", sys.stdout))
    written = render(form, outcome, style)
    if options.output is not None:
        write_whole(options.output, written)
    else:
        sys.stdout.write(written)
    aside = sys.stdout if form is Format.FULL and options.output is None else sys.stderr
    print(text.observation(outcome, observed.events, style), file=aside)
