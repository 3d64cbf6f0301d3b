"""Methods behind which an object is used no more: they take it what only its constructor makes.

``def close(self): torch.cuda.synchronize(); self.rows = None``: what would ``self.rows.sum()`` work on?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.models import python

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def of(methods: Mapping[str, ir.FunctionDecl], names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Which of the named methods do so, with the attributes that are gone then.

    Not what another method makes again, or what some method asks for first: ``if self.rows is not None``.
    """
    constructor = methods.get("__init__")
    if constructor is None:
        return {}
    made = {name for name, sources in constructor.given if any(one.endswith("()") for one in sources)}
    for decl in methods.values():
        made -= {name for name, _ in decl.given} if decl is not constructor else set()
    taken = {name: made & set(_taken(methods[name], methods)) for name in names if name != "__init__"}
    wanted = frozenset[str]().union(*taken.values())
    users = (decl for decl in methods.values() if not wanted.isdisjoint(decl.own))
    asked = {name for decl in users for name in _asked(decl)}
    return {name: frozenset(gone - asked) for name, gone in taken.items() if gone - asked}


def _taken(decl: ir.FunctionDecl, methods: Mapping[str, ir.FunctionDecl]) -> Iterator[str]:
    """What a method takes its object, or a step that it calls."""
    for one in (decl, *(methods[name] for name in decl.called & decl.own & methods.keys())):
        for node, own in _nodes(one):
            match node:
                case ir.Assign(targets=targets, value=ir.Const(value=None)) | ir.Delete(targets=targets):
                    yield from (name for target in targets for name in _of(own, target))
                case ir.Call(func=ir.Attr(value=held, name=python.SHUTS_DOWN)):
                    # An executor takes no tasks then.
                    yield from _of(own, held)
                case _:
                    pass


def _asked(decl: ir.FunctionDecl) -> Iterator[str]:
    """Attributes of which a method asks whether they are there, itself or by a variable."""
    held: dict[str, str] = {}
    asked: set[str] = set()
    for node, own in _nodes(decl):
        match node:
            case ir.Assign(targets=(ir.Name(id=name),), value=value) | ir.Bind(name=name, value=value):
                held.update((name, attribute) for attribute in _of(own, value))
                tested: tuple[ir.Expr, ...] = ()
            case ir.Compare(left=left, right=right):
                tested = (left, right)
            case (
                ir.If(test=test)
                | ir.While(test=test)
                | ir.Choice(test=test)
                | ir.Unary(op="not", operand=test)
            ):
                tested = (test,)
            case ir.Boolean(operands=operands):
                tested = operands
            case ir.Call(func=ir.Name(id="getattr" | "hasattr"), args=(_, ir.Arg(value=named), *_)):
                tested = (named,)
            case _:
                tested = ()
        for one in tested:
            match one:
                case ir.Name(id=name) | ir.Bind(name=name):
                    asked.add(name)
                case ir.Const(value=str() as name):
                    yield name
                case _:
                    yield from _of(own, one)
    yield from (held[name] for name in asked & held.keys())


def _nodes(decl: ir.FunctionDecl) -> Iterator[tuple[object, str]]:
    """All parts of a method, each with the name of its object."""
    function = ir.code_of(decl)
    if function is not None and function.params:
        for node in ir.walk(function.body):
            yield node, function.params[0].name


def _of(own: str, e: ir.Expr) -> tuple[str, ...]:
    """``rows`` of ``self.rows``"""
    match e:
        case ir.Attr(value=ir.Name(id=owner), name=name) if owner == own:
            return (name,)
        case _:
            return ()
