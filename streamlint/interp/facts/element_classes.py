"""Which class of the tree the elements of a list have that is passed to a function or a constructor.

``def attach(handles: list[Handle])`` says so, and so does ``Loader([Slot(n) for _ in range(3)])``, if all
callers that show it agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import given_classes, kinds, scopes, writes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.facts.given_classes import Given
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope, Target


def of_element(project: Project, target: Target, param: str) -> Given | None:
    """The class of the elements of what callers pass."""
    return given_classes.kept(
        project,
        (target.span, f"{param}[]"),
        lambda: _shown(project, target, param, given_classes.MOST_STEPS.number),
        lambda: None,
    )


def _shown(project: Project, target: Target, param: str, steps: int) -> ir.ClassDecl | None:
    said = next((known.annotation for known in target.params() if known.name == param), None)
    if said is not None:
        return given_classes.only(
            {scopes.class_named_by(project, target.module, e) for e in kinds.held(said)}
        )
    return given_classes.only(
        {
            found
            for scope, e in given_classes.arguments(project, target, param)
            for found in _made(project, scope, e, steps)
        }
    )


def _made(project: Project, scope: Scope, e: ir.Expr, steps: int) -> Iterator[ir.ClassDecl | None]:
    """The classes of the elements of a display, or of what a name stands for; None if it is not known."""
    if steps <= 0:
        project.budgets.cut(given_classes.MOST_STEPS)
        return
    match e:
        case ir.Comprehension(kind="list" | "generator", element=element):
            yield given_classes.of_expression(project, scope, element, steps)
        case ir.Seq(items=items):
            for item in items:
                yield given_classes.of_expression(project, scope, item, steps)
        case ir.Name(id=name):
            for held in writes.to_name(project, scope, name):
                yield from _made(project, scope, held, steps - 1)
            target = scopes.target_of(scope)
            if target is not None and any(param.name == name for param in scope.function.params):
                yield _shown(project, target, name, steps - 1)
        case _:
            yield None
