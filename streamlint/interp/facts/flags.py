"""Who decides about a flag: the code and its callers, or a module that is not in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import kinds, writes
from streamlint.interp.facts.scopes import scope_of
from streamlint.interp.state import symbols
from streamlint.ir.walk import walk
from streamlint.models import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope
    from streamlint.interp.state.symbols import Symbol

_DEEPEST = 4
"""Names that stand for names: ``pin = self.pin``, and ``self.pin = is_pin_memory_available()``."""


def _is_unseen(path: str) -> bool:
    """Whether a name is one of a module that is not in sight: what libraries of GPUs say is as on one."""
    root, _, rest = path.partition(".")
    return bool(rest) and root not in vocabulary.ROOTS


def is_of_module(symbol: Symbol) -> bool:
    """Whether a name or a function of a module that is not in sight has a part in a value."""
    match symbol:
        case symbols.Name(path):
            return _is_unseen(path)
        case _:
            inside = symbols.has(symbol, symbols.Name)
            return inside and any(is_of_module(part) for part in symbols.parts(symbol))


def names_module(project: Project, scope: Scope, e: ir.Expr, depth: int = _DEEPEST) -> bool:
    """The same of an expression in code that is not running."""
    if depth == 0:
        return False
    for part in walk(e):
        match part:
            case ir.Name(id=name):
                values = writes.of_function(project, scope.function).assigned(name)
                if any(names_module(project, scope, value, depth - 1) for value in values):
                    return True
                is_given = values or any(param.name == name for param in scope.function.params)
                if not is_given and _is_unseen(kinds.dotted(project, scope.module.name, part)):
                    return True
            case ir.Attr(value=ir.Name(id=owner), name=name) if owner == scope.receiver and scope.cls:
                order = project.ancestors(scope.cls)[0]
                stored = stored_by(project, order, name)
                if any(names_module(project, inner, value, depth - 1) for inner, value in stored):
                    return True
            case ir.Attr() if _is_unseen(kinds.dotted(project, scope.module.name, part)):
                return True
            case _:
                pass
    return False


def stored_by(
    project: Project, order: Iterable[ir.ClassDecl], name: str, *, inside: bool = False
) -> Iterator[tuple[Scope, ir.Expr]]:
    """What the methods of classes put into a field of their object, and where.

    ``inside``: also what functions inside of them do.
    """
    for owner in order:
        module = project.module(owner.module)
        for decl in owner.methods.values() if module is not None else ():
            scope = scope_of(module, decl, owner) if module is not None and name in decl.stored else None
            if scope is not None:
                for value in writes.on_receiver(project, scope, name, inside=inside):
                    yield scope, value
