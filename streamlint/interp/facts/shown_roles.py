"""What text shows to be a stream or an event: an annotation, or a use that only such a thing has.

``def flush(lane: torch.cuda.Stream): lane.synchronize()``, and ``self.lane.synchronize()`` where another
method says ``with torch.cuda.stream(self.lane)``. How a name sounds tells nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir, models
from streamlint.interp.facts import kinds
from streamlint.interp.state.kept import Kept
from streamlint.models import schema as fx
from streamlint.models import vocabulary
from streamlint.models.schema import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

_MAKES = {fx.NewStream: Role.STREAM, fx.ForeignStream: Role.STREAM, fx.NewEvent: Role.EVENT}


def of_symbol(m: Machine, symbol: Symbol) -> Role | None:
    """What an unknown parameter or field is."""
    if symbol in m.parameters:
        scope, name = m.parameters[symbol]
        return _in_function(m.project, scope.module.name, scope.function).get(name)
    if symbol in m.owners:
        cls, name = m.owners[symbol]
        return _of_field(m.project, cls, name)
    return None


def _of_field(project: Project, cls: ir.ClassDecl, name: str) -> Role | None:
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
        for effect, role in _MAKES.items():
            if param.annotation is not None and _does(project, module, param.annotation, effect):
                yield param.name, role


def _does(project: Project, module: str, called: ir.Expr, effect: type[fx.Effect]) -> bool:
    """Whether an expression names a function of a library that has an effect: ``torch.cuda.stream``."""
    row = models.find_function(kinds.dotted(project, module, called))
    return row is not None and any(isinstance(one, effect) for one in row[1].effects)
