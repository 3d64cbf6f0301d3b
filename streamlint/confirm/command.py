"""The command line of ``streamlint confirm``."""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streamlint.confirm.gpu.driver import Driver, DriverUnavailableError
from streamlint.confirm.plan.functions import PlanError
from streamlint.confirm.plan.plans import (
    Plan,
    Target,
    of_each_statement,
    of_findings,
    of_line,
    of_program,
    parse_target,
)
from streamlint.confirm.report import text as report
from streamlint.confirm.run.program import Program, cases_of
from streamlint.confirm.run.runner import Confirmation, confirm_all
from streamlint.confirm.run.server import Limits, Server, serving, slow_imports
from streamlint.confirm.verdict import Decision, Verdict
from streamlint.frozen import frozen
from streamlint.output import terminal
from streamlint.run.stop import stoppable
from streamlint.settings.config import find_root
from streamlint.witness import NoWitness, gpus_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.finding import Finding

_EPILOG = """\
Each function runs serialized, with the earlier operation held back, and if that shows something,
serialized with the same delays; each time in a process of its own. Files are instrumented in memory only.
Exit status: 0 nothing confirmed, 1 something confirmed, 2 could not run."""


def main(argv: Sequence[str]) -> int:
    """Run ``streamlint confirm`` with these arguments and return the exit status."""
    if argv and argv[0] == "--observe":
        from streamlint.confirm.observe.command import main as observe

        return observe(argv[1:])
    words = list(argv)
    # After `--` comes the program, whatever it looks like.
    cut = words.index("--") if "--" in words else len(words)
    command = words[cut + 1 :] if cut < len(words) else None
    options = parser().parse_args(words[:cut])
    if options.synthesize is not None:
        return _synthesize(options)
    # SIGTERM as Ctrl-C: what was started is ended first.
    with stoppable(), _ahead(options, command) as server:
        return _confirm(options, command, server)


def _confirm(options: argparse.Namespace, command: list[str] | None, server: Server | None) -> int:
    try:
        planned = _planned(options, command)
    except PlanError as error:
        return _refuse(str(error))
    plans = planned.plans
    if options.plan:
        if options.output_format == "json":
            terminal.write(f"{report.plans_json(plans)}\n", sys.stdout)
        else:
            terminal.show(report.plans_text(plans))
        return 0
    if not plans:
        _complain(planned.nothing)
        if options.output_format == "json":
            terminal.write(f"{report.as_json([], planned.findings)}\n", sys.stdout)
        return 0
    try:
        gpus = Driver().device_count()
    except DriverUnavailableError as error:
        return _refuse(f"confirm needs an NVIDIA GPU: {error}; --plan shows what would be run")
    confirmations = _confirmed(planned, gpus, options, server)
    if options.output_format == "json":
        terminal.write(f"{report.as_json(confirmations, planned.findings)}\n", sys.stdout)
    else:
        terminal.show(report.text(confirmations))
    if options.html is not None:
        _write_html(options, confirmations, planned.findings)
    return exit_status(confirmations)


@contextmanager
def _ahead(options: argparse.Namespace, command: list[str] | None) -> Iterator[Server | None]:
    """The process of the runs. It imports what the files import, while these are analyzed."""
    files = [Path(target.partition("::")[0]).resolve() for target in options.targets]
    if options.plan or command is not None or not all(file.is_file() for file in files):
        yield None
        return
    try:
        Driver()
        preload = slow_imports(files)
        root, _ = find_root(files)
    except (DriverUnavailableError, OSError, ValueError):
        yield None  # it is told where it happens again
        return
    with serving(root, preload, _limits(options)) as server:
        yield server


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(options.delay, options.timeout, options.python, shared=options.each)


def _write_html(
    options: argparse.Namespace, confirmations: Sequence[Confirmation], findings: Sequence[Finding]
) -> None:
    from streamlint.confirm.report import html

    terminal.save(options.html, html.page(confirmations, findings, options.delay))


def _synthesize(options: argparse.Namespace) -> int:
    from streamlint.confirm.reproduce import synthetic

    try:
        targets = [parse_target(text) for text in options.targets]
        root, _ = find_root([t.path for t in targets])
        findings = _findings(root, targets, options)
        wanted = [one for one in findings if any(_is_in(one, root, target) for target in targets)]
        return synthetic.main(wanted, root, options.synthesize, options.python, options.timeout)
    except (PlanError, OSError, DriverUnavailableError) as error:
        return _refuse(str(error))


@frozen()
class _Planned:
    plans: list[Plan]
    findings: Sequence[Finding] = ()
    command: list[str] | None = None
    nothing: str = "nothing to confirm"


def _confirmed(
    planned: _Planned, gpus: int, options: argparse.Namespace, server: Server | None
) -> list[Confirmation]:
    limits = _limits(options)
    able = [plan for plan in planned.plans if gpus_of(plan.witness) <= gpus]
    if planned.command is None:
        done = confirm_all(able, limits, options.jobs, _complain, server)
    else:
        program = Program(planned.command, cases_of(able), limits, measures=options.html is not None)
        done = program.confirm(_complain)
    by_plan = dict(zip(able, done, strict=True))
    return [by_plan.get(plan) or _too_few(plan, gpus) for plan in planned.plans]


def _too_few(plan: Plan, gpus: int) -> Confirmation:
    reason = f"the finding is about {gpus_of(plan.witness)} GPUs, and there is {gpus}"
    return Confirmation(plan, Decision(Verdict.NOT_RUN, reason))


def exit_status(confirmations: Sequence[Confirmation]) -> int:
    """Return 1 if something was confirmed, else 2 if something could not run, else 0.

    A finding whose rule has no witness is not one that could not run.
    """
    verdicts = {c.decision.verdict for c in confirmations if not isinstance(c.plan.witness, NoWitness)}
    if Verdict.CONFIRMED in verdicts:
        return 1
    return 2 if Verdict.NOT_RUN in verdicts else 0


def _complain(text: str) -> None:
    terminal.complain(text)


def _refuse(reason: str) -> int:
    _complain(reason)
    return 2


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="streamlint confirm",
        usage="%(prog)s [options] TARGET... [-- COMMAND...]",
        description="Hold back the earlier operation of a finding on a GPU, and compare what is returned.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("targets", nargs="+", metavar="TARGET", help="FILE, FOLDER or FILE::FUNCTION (without arguments)")
    add("--finding", action="append", default=[], metavar="FINGERPRINT", help="only this finding")
    add("--code", action="append", default=[], metavar="CODE", help="only findings of this rule or prefix")
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
    add(
        "--html",
        type=terminal.report_file,
        metavar="FILE",
        help="also write a report with a picture of each racing run",
    )
    add("--output-format", choices=("text", "json"), default="text")
    return made


def _planned(options: argparse.Namespace, command: list[str] | None) -> _Planned:
    targets = [parse_target(text) for text in options.targets]
    if options.later is not None and options.earlier is None:
        raise PlanError("--later needs --earlier")
    if options.each and options.earlier is not None:
        raise PlanError("--each and --earlier exclude each other")
    if command is not None and (options.each or options.earlier is not None):
        raise PlanError("--each and --earlier are for functions, not for a command")
    if command == []:
        raise PlanError("no command after --")
    root, _ = find_root([t.path for t in targets])
    if options.earlier is not None:
        return _Planned([p for t in targets for p in of_line(t, root, options.earlier, options.later)])
    if options.each:
        return _Planned([p for t in targets for p in of_each_statement(t, root)])
    findings = _findings(root, targets, options)
    if command is not None:
        asked = [one for one in findings if any(_is_in(one, root, target) for target in targets)]
        return _Planned(of_program(asked, root), asked, command, "no findings there: nothing to confirm")
    files = [file for target in targets for file in _files(target, root, findings)]
    plans = [plan for file in files for plan in of_findings(file, root, findings)]
    nothing = "nothing to confirm: no finding in a function that can be called without arguments"
    return _Planned(plans, findings, None, nothing)


def _is_in(finding: Finding, root: Path, target: Target) -> bool:
    path = root / finding.primary.path
    if target.function is not None:
        own = finding.function == target.function or finding.function.startswith(f"{target.function}.")
        return path == target.path and own
    return path == target.path or target.path in path.parents


def _files(target: Target, root: Path, findings: Sequence[Finding]) -> list[Target]:
    """A folder stands for its files with findings."""
    if not target.path.is_dir():
        return [target]
    paths = {root / finding.primary.path for finding in findings if _is_in(finding, root, target)}
    return [Target(path, None) for path in sorted(paths)]


def _findings(root: Path, targets: Sequence[Target], options: argparse.Namespace) -> list[Finding]:
    # The analysis is needed only here: with --earlier and --each no file is analyzed.
    from streamlint.finding import leading
    from streamlint.run.discover import discover
    from streamlint.run.engine import Settings, analyze
    from streamlint.settings.catalog import Selection, catalog, parse_selectors
    from streamlint.settings.config import load, with_known_codes

    rules = catalog()
    selection = Selection(parse_selectors(options.code, rules)) if not options.finding else None
    config = with_known_codes(load(root, None), rules)
    files = discover([t.path for t in targets], root, config.exclude).files
    report_of_run = analyze(root, files, Settings(default_stream=config.default_stream))
    for error in report_of_run.errors:
        _complain(f"{error.path}:{error.line}: {error.message}")
    active = None if selection is None else selection.codes(rules)
    found = [one for one in leading(report_of_run.findings) if active is None or one.code in active]
    for mark in options.finding:
        if not any(one.fingerprint.startswith(mark) for one in found):
            raise PlanError(f"no finding has the fingerprint {mark}")
    return [one for one in found if not options.finding or one.fingerprint.startswith(tuple(options.finding))]
