"""Parameters whose default leaves out code that may have to do with streams.

``def __init__(self, model, world_size=1)``, and in a method ``if self.world_size > 1: self._reduce_aside()``:
some caller passes another number, or nobody would have written the arm. So with what is chosen by it:
``self.cache = Cache(rows) if rows > 0 else None``, and then ``if self.cache is None: return self._load(x)``.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, TypeAlias

from streamlint import ir
from streamlint.interp.facts import arms, scopes
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.scope import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from streamlint.interp.state.project import Project
    from streamlint.interp.state.scope import Scope
    from streamlint.source import Span

Plain: TypeAlias = "int | float | str"
Constant: TypeAlias = "Plain | None"
Known: TypeAlias = "Mapping[str, Constant]"
"""What variables and attributes are, as they are written: ``mode``, ``self.mode``."""

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
        _LEAVES_OUT, (scope.function.span, name), lambda: _leaves_out(project, scope, name, default)
    )


def _leaves_out(project: Project, scope: Scope, name: str, default: Plain) -> bool:
    """Looks at the function, and at those that it hands the parameter on to, or keeps it for."""
    waiting: list[tuple[Scope, Known]] = [(scope, {name: default})]
    seen: set[tuple[Span, str]] = set()
    while waiting:
        here, asked = waiting.pop()
        fresh = {text: value for text, value in asked.items() if (here.function.span, text) not in seen}
        if not fresh:
            continue
        seen |= {(here.function.span, text) for text in fresh}
        known = {**_chosen(here.function, fresh), **fresh}
        module, body = here.module.name, here.function.body
        if any(arms.say(project, module, dead, here.function) for dead in _dead(body, known)):
            return True
        waiting += [*_keepers(here, known), *_handed_on(project, here, known)]
    return False


def _keepers(scope: Scope, known: Known) -> Iterator[tuple[Scope, Known]]:
    """The methods of an object whose constructor keeps what it gets: ``self.mode = mode``."""
    if scope.cls is None or scope.function.name != "__init__":
        return
    own = f"{scope.function.params[0].name}." if scope.function.params else ""
    kept = {text.removeprefix(own): value for text, value in known.items() if own and text.startswith(own)}
    for decl in scope.cls.methods.values():
        here = kept.keys() & decl.own if decl.name != "__init__" else frozenset()
        method = scopes.scope_of(scope.module, decl, scope.cls) if here else None
        if method is not None and method.function.params:
            receiver = method.function.params[0].name
            yield method, {f"{receiver}.{attribute}": kept[attribute] for attribute in here}


def _chosen(function: ir.Function, known: Known) -> Known:
    """What variables and attributes are given, where that is one value that rests on what is known.

    ``self.mode = mode``, ``self.aside = lanes > 1``, ``self.ring = Ring(lanes) if lanes > 1 else None``.
    """
    found: Known = {}
    while more := {text: one for text, one in _given(function, {**found, **known}) if text not in found}:
        found = {**found, **more}
    return found


def _given(function: ir.Function, known: Known) -> Iterator[tuple[str, Constant]]:
    dead = {id(node) for arm in _dead(function.body, known) for node in ir.walk(arm)}
    given: dict[str, list[tuple[bool, ir.Expr]]] = {}
    for node in ir.walk(function.body):
        match node:
            case ir.Assign(targets=(ir.Name() | ir.Attr(value=ir.Name()) as target,), value=value):
                given.setdefault(ir.dotted(target), []).append((id(node) in dead, value))
            case _:
                pass
    for text, values in given.items():
        live = [value for is_dead, value in values if not is_dead]
        rests = len(live) < len(values) or (len(live) == 1 and not isinstance(live[0], ir.Const))
        if rests and len(live) == 1 and (plain := _plain(live[0], known)) is not None:
            yield text, plain[0]


def _handed_on(project: Project, scope: Scope, known: Known) -> Iterator[tuple[Scope, Known]]:
    """``Worker(mode)``, ``super().__init__(mode=mode)``, ``self._load(x, self.mode)``."""
    for node in ir.walk(scope.function.body):
        if not isinstance(node, ir.Call) or known.keys().isdisjoint(ir.dotted(a.value) for a in node.args):
            continue
        called = _called(project, scope, node)
        callee = scopes.scope_of(*called) if called is not None else None
        if called is not None and callee is not None:
            target = Target(called[1])
            given = {p.name: scopes.argument_of(node, p.name, target.positional()) for p in target.params()}
            texts = {name: ir.dotted(e) for name, e in given.items() if e is not None}
            yield callee, {name: known[text] for name, text in texts.items() if text in known}


def _called(
    project: Project, scope: Scope, call: ir.Call
) -> tuple[ir.Module, ir.FunctionDecl, ir.ClassDecl | None] | None:
    """The function of the module, the constructor or the method of the object that is called."""
    module, receiver = scope.module, next((param.name for param in scope.function.params), None)
    bases = project.ancestors(scope.cls)[0] if scope.cls is not None else []
    match call.func:
        case ir.Name(id=name) if name in module.functions:
            return module, module.functions[name], None
        case ir.Name(id=name) if name in module.classes:
            return _method(project, project.ancestors(module.classes[name])[0], "__init__")
        case ir.Attr(value=ir.Name(id=owner), name=name) if owner == receiver:
            return _method(project, bases, name)
        case ir.Attr(value=ir.Call(func=ir.Name(id="super")), name=name):
            return _method(project, bases[1:], name)
        case _:
            return None


def _method(
    project: Project, order: Sequence[ir.ClassDecl], name: str
) -> tuple[ir.Module, ir.FunctionDecl, ir.ClassDecl] | None:
    cls = next((one for one in order if name in one.methods), None)
    module = project.module(cls.module) if cls is not None else None
    return (module, cls.methods[name], cls) if cls is not None and module is not None else None


def _dead(body: Sequence[ir.Stmt], known: Known) -> Iterator[object]:
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


def _answer(test: ir.Expr, known: Known) -> bool | None:
    """What a test answers by what is known, if it asks of that; None where it is open."""
    match test:
        case ir.Unary(op="not", operand=operand):
            answer = _answer(operand, known)
            return None if answer is None else not answer
        case ir.Boolean(op=op, operands=operands):
            stops = op == "or"
            answers = [_answer(operand, known) for operand in operands]
            return stops if stops in answers else None if None in answers else not stops
        case ir.Compare(op=op, left=left, right=right):
            one, two = _plain(left, known), _plain(right, known)
            rests = bool(known.keys() & {ir.dotted(left), ir.dotted(right)})
            return _compared(op, *one, *two) if rests and one and two else None
        case ir.Name() | ir.Attr():
            value = _plain(test, known)
            return None if value is None else bool(value[0])
        case _:
            return None


def _compared(op: str, one: Constant, two: Constant) -> bool | None:
    match op:
        case "is":
            return one is two
        case "is not":
            return one is not two
        case _ if one is None or two is None or op not in _ORDER:
            return None
        case _:
            return _ORDER[op](one, two) if isinstance(one, str) == isinstance(two, str) else None


def _plain(e: ir.Expr, known: Known) -> tuple[Constant] | None:
    """The one value that an expression has, by what is known; None where it is open."""
    match e:
        case ir.Const(value=int() | float() | str() | None as value):
            return (value,)
        case ir.Name() | ir.Attr() if (text := ir.dotted(e)) in known:
            return (known[text],)
        case ir.Choice(test=test, body=body, orelse=orelse):
            answer = _answer(test, known)
            return None if answer is None else _plain(body if answer else orelse, known)
        case ir.Compare() | ir.Boolean() | ir.Unary(op="not"):
            answer = _answer(e, known)
            return None if answer is None else (answer,)
        case _:
            return None
