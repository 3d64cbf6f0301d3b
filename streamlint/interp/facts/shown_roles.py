"""What text shows to be a stream or an event: an annotation, or a use that only such a thing has.

``def flush(lane: torch.cuda.Stream): lane.synchronize()``, the field ``lane: torch.Stream | None``, and
``self.lane.synchronize()`` where another method says ``with torch.cuda.stream(self.lane)``. How a name sounds
tells nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.interp.facts import classes, kinds
from streamlint.interp.state import symbols
from streamlint.interp.state.kept import Kept
from streamlint.models import schema as fx
from streamlint.models import vocabulary
from streamlint.models.schema import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def of_symbol(m: Machine, symbol: Symbol) -> Role | None:
    """What an unknown parameter or field is, or an element of one."""
    if symbol in m.parameters:
        scope, name = m.parameters[symbol]
        return _in_function(m.project, scope.module.name, scope.function).get(name)
    if symbol in m.owners:
        cls, name = m.owners[symbol]
        return _of_field(m.project, cls, name)
    return _of_element(m, symbol.of) if isinstance(symbol, symbols.Item) else None


def _of_element(m: Machine, whole: Symbol) -> Role | None:
    """``lanes[0]`` of ``lanes: list[torch.cuda.Stream]``."""
    if whole in m.parameters:
        scope, name = m.parameters[whole]
        said = next((param.annotation for param in scope.function.params if param.name == name), None)
        return _held(m.project, scope.module.name, said)
    if whole in m.owners:
        cls, name = m.owners[whole]
        return m.project.once(_ELEMENTS, (cls, name), lambda: _of_declared(m.project, cls, name, _held))
    return None


_FIELDS: Kept[tuple[ir.ClassDecl, str], Role | None] = Kept()
_ELEMENTS: Kept[tuple[ir.ClassDecl, str], Role | None] = Kept()


def _of_field(project: Project, cls: ir.ClassDecl, name: str) -> Role | None:
    def find() -> Role | None:
        return _of_declared(project, cls, name, _said) or _of_used(project, cls, name)

    return project.once(_FIELDS, (cls, name), find)


def _of_declared(
    project: Project,
    cls: ir.ClassDecl,
    name: str,
    read: Callable[[Project, str, ir.Expr | None], Role | None],
) -> Role | None:
    """What the first class says that declares a field: ``lane: torch.Stream | None``."""
    for one in project.ancestors(cls)[0]:
        for annotation in classes.declared(one).get(name, ()):
            return read(project, one.module, annotation)
    return None


def _said(project: Project, module: str, annotation: ir.Expr | None) -> Role | None:
    return kinds.role_named(annotation, kinds.Names(project, module))


def _held(project: Project, module: str, annotation: ir.Expr | None) -> Role | None:
    said = {_said(project, module, one) for one in kinds.held(annotation)}
    return said.pop() if len(said) == 1 else None


def _of_used(project: Project, cls: ir.ClassDecl, name: str) -> Role | None:
    """What the methods of a class use its attribute as."""
    for ancestor in project.ancestors(cls)[0]:
        for decl in ancestor.methods.values():
            if name not in decl.own:
                continue
            function = ir.code_of(decl)
            if function is None:
                continue
            role = _in_function(project, decl.module, function).get(f"{function.params[0].name}.{name}")
            if role is not None:
                return role
    return None


_ROLES: Kept[tuple[str, str, Span], dict[str, Role]] = Kept()


def _in_function(project: Project, module: str, function: ir.Function) -> dict[str, Role]:
    """The parameters and the attributes of them that are streams or events, by their text: ``self.lane``."""
    place = (function.module, function.qualname, function.span)
    return project.once(_ROLES, place, lambda: dict(_found(project, module, function)))


def _found(project: Project, module: str, function: ir.Function) -> Iterator[tuple[str, Role]]:
    for node in ir.walk(function.body):
        match node:
            case ir.Call(func=ir.Attr(value=owner, name=name)) if name in vocabulary.ONLY_STREAMS_HAVE:
                yield ir.dotted(owner), Role.STREAM
            case ir.Call(func=ir.Attr(value=owner, name=name)) if name in vocabulary.ONLY_EVENTS_HAVE:
                yield ir.dotted(owner), Role.EVENT
            case ir.Call(func=ir.Attr(name=name) as func, args=(ir.Arg(value=given), *_)) if (
                name in vocabulary.KEEPS_ALIVE or _does(project, module, func, fx.EnterStream)
            ):
                yield ir.dotted(given), Role.STREAM
            case _:
                pass
    for param in function.params:
        said = None if param.kind.startswith("*") else _said(project, module, param.annotation)
        if said is not None:
            yield param.name, said


def _does(project: Project, module: str, called: ir.Expr, effect: type[fx.Effect]) -> bool:
    """Whether an expression names a function of a library that has an effect: ``torch.cuda.stream``."""
    row = models.find_function(kinds.dotted(project, module, called))
    return row is not None and any(isinstance(one, effect) for one in row[1].effects)
