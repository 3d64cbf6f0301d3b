"""Functions that callers pass, where it matters what they are: those whose blocks run on a stream.

``def lookup(rows, side, stream_context): with stream_context(side): ...``, called with ``torch.cuda.stream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.interp.facts import given_classes, kinds, scopes, writes
from streamlint.interp.state.budgets import Most
from streamlint.interp.state.kept import Kept
from streamlint.models import schema as fx
from streamlint.models import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope
    from streamlint.source import Span

MOST_STEPS = Most(6, "the function that is passed")
"""Names, attributes and parameters that are followed from an argument to the function that it stands for."""

_ENTERING: Kept[tuple[Span, str], str | None] = Kept()


def entering(project: Project, scope: Scope, param: str) -> str | None:
    """The function that a parameter is, if that makes blocks of a stream: ``"torch.cuda.stream"``."""
    return project.once(
        _ENTERING,
        (scope.function.span, param),
        lambda: next(_of_parameter(project, scope, param, MOST_STEPS.number), None),
    )


def _of_parameter(project: Project, scope: Scope, name: str, steps: int) -> Iterator[str]:
    """``Callable[[torch.Stream], torch.cuda.StreamContext]`` says it, or what calls pass."""
    for param in scope.function.params:
        if param.name == name:
            match param.annotation:
                case ir.Index(
                    value=ir.Name(id="Callable") | ir.Attr(name="Callable"),
                    index=ir.Seq(items=(_, ir.Name() | ir.Attr() as made)),
                ):
                    yield from _named(project, scope, made)
                case _:
                    pass
    target = scopes.target_of(scope)
    for caller, e in given_classes.arguments(project, target, name) if target is not None else ():
        yield from _of_expression(project, caller, e, steps - 1)


def _of_expression(project: Project, scope: Scope, e: ir.Expr, steps: int) -> Iterator[str]:
    if steps <= 0:
        project.budgets.cut(MOST_STEPS)
        return
    match e:
        case ir.Choice(body=body, orelse=orelse):
            yield from _of_expression(project, scope, body, steps)
            yield from _of_expression(project, scope, orelse, steps)
        case ir.Attr(value=ir.Call(func=maker), name=name) if (
            kinds.dotted(project, scope.module.name, maker) in torch.MODULE_MAKERS
        ):
            yield from _entering(f"torch.cuda.{name}")
        case ir.Attr(value=ir.Name(id=owner), name=name) if owner == scope.receiver and scope.cls is not None:
            for inside, put in _put_there(project, scope, scope.cls, name):
                yield from _of_expression(project, inside, put, steps - 1)
        case ir.Name(id=name) if any(param.name == name for param in scope.function.params):
            yield from _of_parameter(project, scope, name, steps)
        case ir.Name(id=name) if written := writes.to_name(project, scope, name):
            for one in written:
                yield from _of_expression(project, scope, one, steps - 1)
        case ir.Name() | ir.Attr():
            yield from _named(project, scope, e)
        case _:
            pass


def _put_there(
    project: Project, scope: Scope, cls: ir.ClassDecl, name: str
) -> Iterator[tuple[Scope, ir.Expr]]:
    """What methods of the class put into an attribute."""
    for decl in cls.methods.values():
        inside = scopes.scope_of(scope.module, decl, cls) if name in decl.stored else None
        if inside is not None:
            yield from ((inside, put) for put in writes.on_receiver(project, inside, name))


def _named(project: Project, scope: Scope, e: ir.Expr) -> Iterator[str]:
    yield from _entering(kinds.dotted(project, scope.module.name, e))


def _entering(path: str) -> Iterator[str]:
    row = models.find_function(path)
    if row is not None and row[1].has(fx.EnterStream):
        yield path
