"""One function by itself: what is found in it, and the paths that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.finding import Confidence, leading
from streamlint.frozen import frozen, replace
from streamlint.interp.entries import starts
from streamlint.interp.entries.runs import run_entry
from streamlint.run import check
from streamlint.run.session import Session

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.finding import Finding
    from streamlint.trace import Trace


class UnknownFunctionError(LookupError):
    """The file has no function of that name; ``names`` are those that it has."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names


@frozen()
class Walk:
    """A path through a function, with what is found on it."""

    trace: Trace
    findings: tuple[Finding, ...] = ()


def walks_of(asked: check.Request, file: Path, function: str) -> list[Walk]:
    """The paths of a function, of ``Class.method``, or of what stands outside (""), most findings first.

    What is found is what ``check`` finds there, also if it takes a caller or another file to show it. Where
    nothing is, the paths are those of the function alone.

    Raises ``ir.LoweringError`` if the file cannot be used.
    """
    files = check.files_around(asked, (file,))
    session = Session(asked.root, files, replace(check.settings_of(asked), evidence=True), {})
    module = session.module(file)
    if module is None:
        error = next(iter(session.tree.errors.values()))
        raise ir.LoweringError(error.path, error.line, error.message)
    names = _names(module)
    if function and function not in names:
        raise UnknownFunctionError(names)
    walks = _walks(session, module, file, function or module.name)
    if not function and not any(works(walk) for walk in walks):
        raise UnknownFunctionError(names)
    return walks


def works(walk: Walk) -> bool:
    """Whether there is anything on the path; the first operation stands for what came before."""
    return len(walk.trace.ops) > 1


def _walks(session: Session, module: ir.Module, file: Path, function: str) -> list[Walk]:
    found = leading([f for f in session.file(file).findings if f.confidence is not Confidence.POSSIBLE])
    by_trace: dict[int, Walk] = {}
    for finding in found:
        if finding.evidence is not None and _is_in(finding, finding.evidence.trace, function):
            trace = finding.evidence.trace
            before = by_trace.get(id(trace), Walk(trace))
            by_trace[id(trace)] = Walk(trace, (*before.findings, finding))
    shown = sorted(by_trace.values(), key=lambda walk: -len(walk.findings))
    return shown or [Walk(trace) for trace in _own_traces(session, module, function)]


def _names(module: ir.Module) -> tuple[str, ...]:
    methods = (f"{cls.name}.{name}" for cls in module.classes.values() for name in cls.methods)
    return (*module.functions, *methods)


def _is_in(finding: Finding, trace: Trace, function: str) -> bool:
    return finding.function == function or function in trace.entry.split(", then ")


def _own_traces(session: Session, module: ir.Module, function: str) -> list[Trace]:
    kind = session.settings.default_kind
    if function in module.functions:
        entry = starts.function_entry(session.project, module, module.functions[function])
        return run_entry(session.project, entry, kind).traces
    runs = starts.module_runs(session.project, module, kind, frozenset({function}))
    return [trace for run in runs for trace in run.traces]
