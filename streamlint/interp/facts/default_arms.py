"""Parameters whose default leaves out code that may have to do with streams.

``def __init__(self, model, world_size=1)``, and in a method ``if self.world_size > 1: self._reduce_aside()``:
some caller passes another number, or nobody would have written the arm.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.interp.facts import arms
from streamlint.interp.state.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope
    from streamlint.source import Span

Plain: TypeAlias = "int | float | str"

_LEAVES_OUT: Kept[tuple[Span, str], bool] = Kept()
"""By the places of functions and the names of parameters."""

_ORDER: Mapping[str, Callable[[Plain, Plain], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def leave_out(project: Project, scope: Scope, name: str, default: Plain) -> bool:
    """Whether code that may have to do with streams is left out while a parameter has its default."""
    return project.once(
        _LEAVES_OUT,
        (scope.function.span, name),
        lambda: any(
            arms.say(project, scope.module.name, dead, function)
            for function, known in _asked(scope, name, default)
            for dead in _dead(function.body, known)
        ),
    )


def _asked(scope: Scope, name: str, default: Plain) -> Iterator[tuple[ir.Function, dict[str, Plain]]]:
    """The functions that may ask of a parameter, each with how it writes it there."""
    function = scope.function
    if name not in _assigned(function.body):
        yield function, {name: default}
    if scope.cls is None or function.name != "__init__":
        return
    attributes = set(_kept_in(function, name))
    for decl in scope.cls.methods.values():
        here = attributes & decl.own
        code = ir.code_of(decl) if here and decl.name != function.name else None
        if code is not None and code.params:
            yield code, {f"{code.params[0].name}.{attribute}": default for attribute in here}


def _assigned(body: Sequence[ir.Stmt]) -> set[str]:
    assigned = (node.targets for node in ir.walk(body) if isinstance(node, ir.Assign))
    return {target.id for targets in assigned for target in targets if isinstance(target, ir.Name)}


def _kept_in(constructor: ir.Function, name: str) -> Iterator[str]:
    """``stages`` of ``self.stages = stages``."""
    for node in ir.walk(constructor.body):
        match node:
            case ir.Assign(targets=(ir.Attr(value=ir.Name(), name=attribute),), value=ir.Name(id=kept)):
                if kept == name:
                    yield attribute
            case _:
                pass


def _dead(body: Sequence[ir.Stmt], known: Mapping[str, Plain]) -> Iterator[object]:
    """The arms that are never taken, and what stands behind an arm that is always taken and leaves."""
    for node in ir.walk(body, functions=True):
        if isinstance(node, (ir.If, ir.While, ir.Choice)):
            answer = _answer(node.test, known)
            if answer is not None:
                yield node.orelse if answer else node.body
    for number, statement in enumerate(body):
        if isinstance(statement, ir.If) and (answer := _answer(statement.test, known)) is not None:
            taken = statement.body if answer else statement.orelse
            if taken and isinstance(taken[-1], ir.Return):
                yield body[number + 1 :]


def _answer(test: ir.Expr, known: Mapping[str, Plain]) -> bool | None:
    """What a test answers by what is known, if it asks of that; None where it is open."""
    match test:
        case ir.Unary(op="not", operand=operand):
            answer = _answer(operand, known)
            return None if answer is None else not answer
        case ir.Boolean(op=op, operands=operands):
            stops = op == "or"
            answers = [_answer(operand, known) for operand in operands]
            return stops if stops in answers else None if None in answers else not stops
        case ir.Compare(op=op, left=left, right=right) if op in _ORDER:
            one, two = _value(left, known), _value(right, known)
            return _compared(op, one, two) if known.keys() & {ir.dotted(left), ir.dotted(right)} else None
        case ir.Name() | ir.Attr():
            value = known.get(ir.dotted(test))
            return None if value is None else bool(value)
        case _:
            return None


def _compared(op: str, one: Plain | None, two: Plain | None) -> bool | None:
    if one is None or two is None or isinstance(one, str) != isinstance(two, str):
        return None
    return _ORDER[op](one, two)


def _value(e: ir.Expr, known: Mapping[str, Plain]) -> Plain | None:
    if isinstance(e, ir.Const):
        return e.value if isinstance(e.value, (int, float, str)) else None
    return known.get(ir.dotted(e)) if isinstance(e, (ir.Name, ir.Attr)) else None
