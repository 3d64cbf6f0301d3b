"""Which functions other processes run: what these are given leads to another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import scopes
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import FuncV
from streamlint.models import aside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Target
    from streamlint.source import Span

_RUNS: Kept[Span, bool] = Kept()


def runs_in_process(project: Project, target: Target) -> bool:
    """Whether its module has a process run a function: ``context.Process(target=rollout, args=(outbox,))``.

    A queue or a pipe that such a function is given is one between processes: no other can be passed.
    """
    return project.once(_RUNS, target.span, lambda: _is_given(project, target))


def started_by(decl: ir.FunctionDecl) -> frozenset[str]:
    """The methods of its object that a function only has other processes run: ``Process(target=self.fill)``.

    What one waits for there orders no stream of this process.
    """
    function = ir.code_of(decl) if aside.STARTS_PROCESS in decl.called else None
    if function is None or not function.params:
        return frozenset()
    targets = (
        argument.value
        for node in ir.walk(function.body)
        if isinstance(node, ir.Call) and ir.called(node) == aside.STARTS_PROCESS
        for argument in node.args
        if argument.keyword == "target"
    )
    return frozenset(_methods(targets, function.params[0].name)) - decl.called


def _methods(targets: Iterable[ir.Expr], receiver: str) -> Iterator[str]:
    for target in targets:
        match target:
            case ir.Attr(value=ir.Name(id=owner), name=name) if owner == receiver:
                yield name
            case _:
                pass


def _is_given(project: Project, target: Target) -> bool:
    module = project.module(target.module)
    if module is None or target.function is None or target.cls is not None:
        return False
    if not any(aside.OF_PROCESSES in one.module.split(".") for one in module.imports):
        return False
    return any(
        argument.keyword == "target" and _is_function(project, target, argument.value)
        for call in _starts(module)
        for argument in call.args
    )


def _starts(module: ir.Module) -> Iterator[ir.Call]:
    bodies = [module.load_body()] if aside.STARTS_PROCESS in module.body_names else []
    for decl, cls in scopes.methods_and_functions(module):
        if aside.STARTS_PROCESS in decl.called:
            scope = scopes.scope_of(module, decl, cls)
            bodies += [scope.function.body] if scope is not None else []
    for body in bodies:
        for node in ir.walk(body, functions=True):
            if isinstance(node, ir.Call) and ir.called(node) == aside.STARTS_PROCESS:
                yield node


def _is_function(project: Project, target: Target, e: ir.Expr) -> bool:
    if not isinstance(e, ir.Name):
        return False
    known = project.member(target.module, e.id)
    return isinstance(known, FuncV) and known.function is target.function
