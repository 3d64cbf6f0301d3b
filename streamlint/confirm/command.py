"""The command line of ``streamlint confirm``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.config import find_root
from streamlint.confirm import report
from streamlint.confirm.driver import Driver, DriverUnavailableError
from streamlint.confirm.plan import PlanError, Target, of_each_statement, of_findings, of_line, parse_target
from streamlint.confirm.runner import Limits, confirm_all
from streamlint.confirm.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.confirm.plan import Plan
    from streamlint.confirm.runner import Confirmation
    from streamlint.finding import Finding

_EPILOG = """\
Each function runs three times, each time in a process of its own: serialized, serialized with
delays, and with the earlier operation held back. Files are instrumented in memory only.
Exit status: 0 nothing confirmed, 1 something confirmed, 2 could not run."""


def main(argv: Sequence[str]) -> int:
    """Run ``streamlint confirm`` with these arguments and return the exit status."""
    if argv and argv[0] == "--observe":
        from streamlint.confirm.observe.command import main as observe

        return observe(argv[1:])
    options = _parser().parse_args(argv)
    if options.synthesize is not None:
        return _synthesize(options)
    try:
        plans, findings = _plans(options)
    except PlanError as error:
        return _refuse(str(error))
    if options.plan:
        print(report.plans_json(plans) if options.output_format == "json" else report.plans_text(plans))
        return 0
    if not plans:
        print("nothing to confirm: no finding in a function that can be called without arguments")
        return 0
    try:
        Driver()
    except DriverUnavailableError as error:
        return _refuse(f"confirm needs an NVIDIA GPU: {error}")
    limits = Limits(options.delay, options.timeout, options.python, shared=options.each)
    confirmations = confirm_all(plans, limits, options.jobs)
    write = report.as_json if options.output_format == "json" else report.text
    print(write(confirmations))
    if options.html is not None:
        return _write_html(options, confirmations, findings) or exit_status(confirmations)
    return exit_status(confirmations)


def _write_html(
    options: argparse.Namespace, confirmations: Sequence[Confirmation], findings: Sequence[Finding]
) -> int:
    from streamlint.confirm import html

    try:
        options.html.write_text(html.page(confirmations, findings, options.delay), "utf-8")
    except OSError as error:
        return _refuse(f"cannot write {options.html}: {error.strerror}")
    return 0


def _synthesize(options: argparse.Namespace) -> int:
    from streamlint.confirm import synthetic

    try:
        targets = [parse_target(text) for text in options.targets]
        root, _ = find_root([t.path for t in targets])
        wanted = [one for one in _findings(root, targets) if any(_is_in(one, t, root) for t in targets)]
        return synthetic.main(wanted, root, options.synthesize, options.python, options.timeout)
    except (PlanError, OSError, DriverUnavailableError) as error:
        return _refuse(str(error))


def _is_in(finding: Finding, target: Target, root: Path) -> bool:
    return root / finding.primary.path == target.path and target.function in (
        None,
        finding.function,
        finding.function.partition(".<locals>")[0],
    )


def exit_status(confirmations: Sequence[Confirmation]) -> int:
    """Return 1 if something was confirmed, else 2 if something could not run, else 0."""
    verdicts = {c.decision.verdict for c in confirmations}
    if Verdict.CONFIRMED in verdicts:
        return 1
    return 2 if Verdict.NOT_RUN in verdicts else 0


def _refuse(reason: str) -> int:
    print(f"streamlint: {reason}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="streamlint confirm",
        description="Hold back the earlier operation of a finding on a GPU, and compare what is returned.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("targets", nargs="+", metavar="FILE[::FUNCTION]", help="functions without arguments")
    add("--earlier", type=int, metavar="LINE", help="hold back this line instead of a finding's")
    add("--later", type=int, metavar="LINE", help="with --earlier: watch this line")
    add("--observe", action="store_true", help="as first argument: run a program (see --observe --help)")
    add("--each", action="store_true", help="hold back every statement that queues work, in turn")
    add("--plan", action="store_true", help="show what would be run; needs no GPU")
    add(
        "--synthesize",
        type=Path,
        metavar="DIR",
        help="write a small program for each finding that replays it, and run these instead",
    )
    add("--delay", type=float, default=200.0, metavar="MS", help="length of a delay (default 200)")
    add("--timeout", type=float, default=120.0, metavar="S", help="limit of one run (default 120)")
    add("--jobs", type=int, default=1, metavar="N", help="plans run at the same time (default 1)")
    add("--python", default=sys.executable, help="interpreter of the program's environment")
    add("--html", type=Path, metavar="FILE", help="also write a report with a picture of each racing run")
    add("--output-format", choices=("text", "json"), default="text")
    return parser


def _plans(options: argparse.Namespace) -> tuple[list[Plan], Sequence[Finding]]:
    targets = [parse_target(text) for text in options.targets]
    if options.later is not None and options.earlier is None:
        raise PlanError("--later needs --earlier")
    if options.each and options.earlier is not None:
        raise PlanError("--each and --earlier exclude each other")
    root, _ = find_root([t.path for t in targets])
    if options.earlier is not None:
        return [p for t in targets for p in of_line(t, root, options.earlier, options.later)], ()
    if options.each:
        return [p for t in targets for p in of_each_statement(t, root)], ()
    findings = _findings(root, targets)
    return [p for t in targets for p in of_findings(t, root, findings)], findings


def _findings(root: Path, targets: Sequence[Target]) -> Sequence[Finding]:
    # The analysis is needed only here: with --earlier and --each no file is analyzed.
    from streamlint.engine import Settings, analyze
    from streamlint.finding import leading

    report_of_run = analyze(root, sorted({t.path for t in targets}), Settings())
    for error in report_of_run.errors:
        print(f"streamlint: {error.path}:{error.line}: {error.message}", file=sys.stderr)
    return leading(report_of_run.findings)
