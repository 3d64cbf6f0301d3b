"""What to run: a zero-argument function, and the pair of statements to test in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from typing_extensions import assert_never

from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.plan.functions import PlanError, Program
from streamlint.confirm.text.instrument import Place
from streamlint.frozen import frozen, replace
from streamlint.trace import Callback, Free, Launch, Role
from streamlint.witness import (
    UNDECLARED,
    ByDeadlock,
    ByError,
    ByLateError,
    ByReuse,
    ByTime,
    ByValue,
    NoWitness,
    Witness,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.finding import Finding
    from streamlint.source import Span

_BY_VALUE: Final = ByValue()


@frozen()
class Plan:
    """Hold back ``earlier`` in ``function`` of ``path`` and watch ``later``.

    ``code`` and ``fingerprint`` name the finding under test; they are empty where the user named
    the line.
    """

    path: Path
    root: Path
    function: str
    earlier: Place | None
    """Nothing is held back if it is ``None``: the error of a call shows without."""
    later: Place | None = None
    code: str = ""
    fingerprint: str = ""
    turn: int | None = None
    """Hold back only this execution of the statement, counted from 0; ``None``: every one."""
    longer: bool = False
    """Hold back for several times as long: the host may need its time to come to the later operation."""
    hold: Hold = Hold.CURRENT
    """What is held back where the statement names no stream."""
    witness: Witness = _BY_VALUE
    earlier_path: Path | None = None
    """The file of the earlier operation, if it is another one: only in a whole program."""
    related: tuple[tuple[str, Place], ...] = ()
    """Where else the error of the finding may come up, by file."""


@frozen()
class Target:
    """``FILE``, ``FOLDER`` or ``FILE::function`` as given on the command line."""

    path: Path
    function: str | None


def parse_target(text: str) -> Target:
    """:raises PlanError: the file does not exist."""
    name, _, function = text.partition("::")
    path = Path(name)
    if path.is_dir() and not function:
        return Target(path.resolve(), None)
    if not path.is_file():
        raise PlanError(f"{name} is not a file")
    return Target(path.resolve(), function or None)


def of_line(target: Target, root: Path, earlier: int, later: int | None) -> list[Plan]:
    """The pair that the user named.

    :raises PlanError: the target names no function, or a line holds no statement.
    """
    program, function = _named(target)
    for line in (earlier, later):
        if line is not None:
            program.require_line(line)
    return [Plan(target.path, root, function, Place(earlier), None if later is None else Place(later))]


def of_each_statement(target: Target, root: Path) -> list[Plan]:
    """One plan for every statement that may queue work: a correct program passes all of them.

    :raises PlanError: the target names no function.
    """
    program, function = _named(target)
    return [Plan(target.path, root, function, place) for place in program.work(function)]


def _named(target: Target) -> tuple[Program, str]:
    if target.function is None:
        raise PlanError("name the function to run: FILE::function")
    program = Program(target.path)
    program.require(target.function)
    return program, target.function


def of_findings(target: Target, root: Path, findings: Iterable[Finding]) -> list[Plan]:
    """The findings of the target's function, or of all functions of the file that can be run.

    :raises PlanError: the named function cannot be run.
    """
    program = Program(target.path)
    if target.function is not None:
        program.require(target.function)
    plans: list[Plan] = []
    for finding in findings:
        function = program.resolve(finding.function)
        drivers = program.drivers(function)
        if target.function is not None:
            drivers = [target.function] if function in program.reachable(target.function) else []
        for driver in drivers:
            plans.extend(_of_finding(finding, driver, target.path, root, program))
    return plans


def of_program(findings: Iterable[Finding], root: Path) -> list[Plan]:
    """The findings for a command that runs them in its own way."""
    plans = []
    for finding in findings:
        witness = witness_for(finding)
        earlier, later = places(finding, witness)
        related = finding.related if isinstance(witness, ByError) else ()
        plans.append(
            Plan(
                root / later.path,
                root,
                finding.function,
                None if earlier is None else _place(earlier),
                _place(later),
                finding.code,
                finding.fingerprint,
                witness=witness,
                earlier_path=None if earlier is None else root / earlier.path,
                related=tuple((str(root / one.span.path), _place(one.span)) for one in related),
            )
        )
    return plans


def witness_of(code: str) -> Witness:
    """What the rule declares."""
    from streamlint.rules import RULES  # not needed for lines that the user names

    return next((rule.witness for rule in RULES if rule.code == code), UNDECLARED)


def witness_for(finding: Finding) -> Witness:
    """What shows this finding: memory that is freed in one of its places has to be handed out again.

    SL504 is about both: a graph whose input is refilled too early, and one whose input is freed.
    """
    declared, evidence = witness_of(finding.code), finding.evidence
    if not isinstance(declared, ByValue) or evidence is None:
        return declared
    if _is_pending_before(finding) or _is_result_of_module(finding):
        return replace(declared, names_earlier=False)
    if isinstance(evidence.trace.ops[evidence.earlier], Free):
        return ByReuse(stale=True)
    return ByReuse() if isinstance(evidence.trace.ops[evidence.later], Free) else declared


def _is_pending_before(finding: Finding) -> bool:
    """Whether the earlier operation is whatever the caller of the finding's function has queued."""
    from streamlint.rules.base import is_entry  # as above

    evidence = finding.evidence
    return evidence is not None and is_entry(evidence.trace.ops[evidence.earlier])


def _is_result_of_module(finding: Finding) -> bool:
    """Whether it is what a hooked module computes: named is where the hook is registered, not the call."""
    evidence = finding.evidence
    op = None if evidence is None else evidence.trace.ops[evidence.earlier]
    return isinstance(op, Launch) and op.role is Role.FORWARD


def _of_finding(finding: Finding, driver: str, path: Path, root: Path, program: Program) -> list[Plan]:
    witness = witness_for(finding)
    earlier, later = places(finding, witness)
    if root / later.path != path or (earlier is not None and root / earlier.path != path):
        return []
    if earlier is not None and not program.holds(Place(earlier.line)):
        # In the body of a module, which is not probed: importing the file must do what it always does.
        return []
    plan = Plan(path, root, driver, None, _place(later), finding.code, finding.fingerprint, witness=witness)
    if earlier is not None:
        return [replace(plan, earlier=_place(earlier))]
    if isinstance(witness, ByValue):
        own = program.lines(finding.function) if _is_pending_before(finding) else range(0)
        return [replace(plan, earlier=place) for place in program.work(driver) if place.line not in own]
    return [plan]


def places(finding: Finding, witness: Witness) -> tuple[Span | None, Span]:
    """The operation to hold back, if the finding names one, and the one that comes too early."""
    related = [related.span for related in finding.related]
    match witness:
        case ByError() | NoWitness() | ByValue(names_earlier=False):
            return None, finding.primary
        case ByTime(of_itself=True):
            return finding.primary, finding.primary
        case ByReuse() if finding.earlier == finding.primary and len(related) > 1:
            # SL401 is reported at the use; its notes are the drop and the allocation that follows.
            return finding.primary, related[1]
        case ByValue() if finding.earlier == finding.primary and related:
            # SL104 is reported at the operation that lacks its stream, which may be the earlier one.
            return finding.primary, related[0]
        case ByValue() | ByReuse() | ByLateError() | ByTime() | ByDeadlock():
            earlier = _queued_by(finding) or finding.earlier
            return earlier or next(iter(related), None), finding.primary
        case _:
            assert_never(witness)


def _queued_by(finding: Finding) -> Span | None:
    """Where the host function was queued that the earlier operation is part of, if it is part of one.

    In its body no stream can be held back: that of ``lane.launch_host_func(look)`` is, before it begins.
    """
    if finding.evidence is None:
        return None
    ops, earlier = finding.evidence.trace.ops, finding.evidence.earlier
    body = ops[earlier].lane
    callbacks = (op for op in ops if isinstance(op, Callback) and op.body == body)
    return next((op.at.span for op in callbacks), None)


def _place(span: Span) -> Place:
    return Place(span.line, span.col)
