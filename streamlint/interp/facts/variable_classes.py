"""Of which classes of the tree the variables of a function are, as its text says or shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import classes, decorators, given_classes, scopes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope

_STEPS = 2
"""From a variable to the attribute that it is given, and to what the class puts there."""


def of(project: Project, scope: Scope) -> dict[str, set[ir.ClassDecl | None]]:
    """The classes by variables, those of functions inside of it too; None among them: also something else.

    ``def names_of(trace: Trace)``, ``state = self.state``, ``task = Task(rows)``. A protocol only says what
    the objects of other classes have.
    """
    found: dict[str, set[ir.ClassDecl | None]] = {}
    for name, cls in _said(project, scope):
        found.setdefault(name, set()).add(None if cls is not None and classes.is_protocol(cls) else cls)
    if scope.receiver is not None and not decorators.is_static(scope.function):
        found[scope.receiver] = {scope.cls}
    return found


def _said(project: Project, scope: Scope) -> Iterator[tuple[str, ir.ClassDecl | None]]:
    for node in (scope.function, *ir.walk(scope.function.body, functions=True)):
        match node:
            case ir.Function(params=params):
                for param in params:
                    yield param.name, scopes.class_named_by(project, scope.module.name, param.annotation)
            case ir.Assign(targets=(ir.Name(id=name),), value=value):
                yield name, given_classes.of_expression(project, scope, value, _STEPS)
            case ir.Assign(targets=targets):
                for target in targets:
                    yield from _bound(target)
            case ir.For(target=target) | ir.Generator(target=target) | ir.WithItem(target=target):
                yield from _bound(target)
            case ir.Bind(name=name):
                yield name, None
            case ir.Case(captures=names):
                yield from ((name, None) for name in names)
            case _:
                pass


def _bound(target: ir.Expr | None) -> Iterator[tuple[str, None]]:
    """The variables that get something: ``state.rows = n`` leaves ``state`` what it is."""
    match target:
        case ir.Name(id=name):
            yield name, None
        case ir.Star(value=value):
            yield from _bound(value)
        case ir.Seq(items=items):
            for item in items:
                yield from _bound(item)
        case _:
            pass
