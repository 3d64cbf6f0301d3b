"""Functions that count their calls and ask the count: of several calls, one finds that it is the last.

``self.pending -= 1`` and ``if self.pending: return``; ``bucket.ready.add(p)`` and ``if len(bucket.ready) ==
len(bucket.params)``. What comes behind such a test happens once for all calls, so that none comes after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.source import Span

_COUNTS: Kept[Span, frozenset[str]] = Kept()
_SETS_BACK: Kept[Span, bool] = Kept()


def tells_the_last(project: Project, function: ir.Function | ir.FunctionDecl) -> bool:
    """Whether a function, with those of its module that it calls, tests what it counts by one."""
    return bool(_asked(project, function))


def counts_anew(project: Project, function: ir.Function | ir.FunctionDecl) -> bool:
    """Whether it sets back by itself what it counts: then many a call is the last one of some.

    ``if self.left == 0: self.left = len(self.params)``, ``self.windows = []``.
    """
    return project.once(_SETS_BACK, function.span, lambda: _sets_back(project, function))


def _asked(project: Project, function: ir.Function | ir.FunctionDecl) -> frozenset[str]:
    return project.once(_COUNTS, function.span, lambda: _counted_and_tested(project, function))


def _counted_and_tested(project: Project, function: ir.Function | ir.FunctionDecl) -> frozenset[str]:
    bodies = list(_reached(project, function))
    counted = {name for body in bodies for node in ir.walk(body) for name in _counted(node)}
    tests = (node.test for body in bodies for node in ir.walk(body) if isinstance(node, ir.If))
    return frozenset(name for test in tests for name in counted & _names(test))


def _sets_back(project: Project, function: ir.Function | ir.FunctionDecl) -> bool:
    asked = _asked(project, function)
    bodies = _reached(project, function)
    return any(name in asked for body in bodies for node in ir.walk(body) for name in _set_back(node))


def _reached(project: Project, function: ir.Function | ir.FunctionDecl) -> Iterator[tuple[ir.Stmt, ...]]:
    module = project.module(function.module)
    by_name: dict[str, list[ir.FunctionDecl]] = {}
    for decl in ir.all_functions(module) if module is not None else ():
        by_name.setdefault(decl.name, []).append(decl)
    waiting: list[ir.Function | ir.FunctionDecl] = [function]
    seen: set[Span] = set()
    while waiting:
        one = waiting.pop()
        if one.span in seen:
            continue
        seen.add(one.span)
        try:
            body = one.load().body if isinstance(one, ir.FunctionDecl) else one.body
        except ir.LoweringError:
            continue
        yield body
        called = {ir.called(node) for node in ir.walk(body) if isinstance(node, ir.Call)}
        waiting += [decl for name in called for decl in by_name.get(name, ())]


def _counted(node: object) -> Iterator[str]:
    """``self.pending[i] -= 1``, ``bucket.waiting.discard(p)``."""
    match node:
        case ir.AugAssign(op="+" | "-", target=target, value=ir.Const(value=1)):
            yield from _last(target)
        case ir.Call(func=ir.Attr(value=owner, name=name), args=(_,)) if name in ir.PUTS | ir.TAKES:
            yield from _last(owner)
        case _:
            pass


def _set_back(node: object) -> Iterator[str]:
    """``self.left = n``, ``bucket.ready.clear()``."""
    match node:
        case ir.Assign(targets=targets):
            for target in targets:
                yield from _given(target)
        case ir.Call(func=ir.Attr(value=owner, name="clear"), args=()):
            yield from _last(owner)
        case _:
            pass


def _given(target: ir.Expr) -> Iterator[str]:
    for one in target.items if isinstance(target, ir.Seq) else (target,):
        yield from _last(one)


def _last(e: ir.Expr) -> Iterator[str]:
    match e:
        case ir.Index(value=value):
            yield from _last(value)
        case ir.Attr(name=name) | ir.Name(id=name):
            yield name
        case _:
            pass


def _names(test: ir.Expr) -> set[str]:
    return {name for node in ir.walk(test) if isinstance(node, (ir.Attr, ir.Name)) for name in _last(node)}
