"""Classes of which code makes several objects, to use them in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import scopes

if TYPE_CHECKING:
    from streamlint.interp.state.project import Project


def are_made(project: Project, cls: ir.ClassDecl) -> bool:
    """Whether a loop or comprehension of its module makes objects of a class: ``[Slot() for _ in xs]``.

    Which of them is used next, and when one is free again, is up to the code that has them all. Other modules
    are not asked: by the name alone it is not known whose class they make objects of.
    """
    target = scopes.constructor_of(project, cls)
    return any(
        isinstance(node, (ir.Comprehension, ir.For, ir.While)) and _holds(node, call)
        for scope, call in scopes.calls_of(project, target)
        for node in ir.walk(scope.function.body, functions=True)
    )


def _holds(node: object, call: ir.Call) -> bool:
    return any(part is call for part in ir.walk(node, functions=True))
