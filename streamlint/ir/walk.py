"""All parts of a piece of code."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from streamlint.ir.decls import ClassDecl, Function, FunctionDecl
from streamlint.ir.nodes import Attr, Call, Name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from streamlint.ir.nodes import Expr


def walk(node: object, *, functions: bool = False) -> Iterator[object]:
    """A statement or expression and everything in it, outside in.

    Classes defined inside it are not entered, and functions only if asked for.
    """
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if type(here) is tuple:
            waiting.extend(here[::-1])
            continue
        kind = type(here)
        inside = _INSIDE[kind] if kind in _INSIDE else _learn(kind)
        if inside is not None and (functions or kind is not Function):
            yield here
            waiting.extend(inside(here))


def decorated_by(function: Function | FunctionDecl) -> frozenset[str]:
    """The last names of a function's decorators: ``no_grad`` of ``@torch.no_grad()``."""
    texts = (one if isinstance(one, str) else dotted(one) for one in function.decorators)
    return frozenset(text.rpartition(".")[2] for text in texts)


def dotted(e: Expr) -> str:
    """What a name, or the call of one, names: ``numba.cuda.jit``; ``?`` stands for anything else."""
    match e:
        case Name(id=name):
            return name
        case Attr(value=value, name=name):
            return f"{dotted(value)}.{name}"
        case Call(func=func):
            return dotted(func)
        case _:
            return "?"


def called(e: Call) -> str:
    """The last name of what a call calls."""
    match e.func:
        case Name(id=name) | Attr(name=name):
            return name
        case _:
            return ""


def children(node: object) -> Sequence[object]:
    """What stands right below a node, in order: nodes and tuples of nodes, and what else its fields hold."""
    if isinstance(node, tuple):
        return node
    kind = type(node)
    inside = _INSIDE[kind] if kind in _INSIDE else _learn(kind)
    return () if inside is None else inside(node)[::-1]


_Inside: TypeAlias = "Callable[[Any], tuple[object, ...]]"

_INSIDE: dict[type[object], _Inside | None] = {}
"""What gives the fields of a node that nodes can be in, the last one first; None for what is no node."""

_PLAIN = frozenset({"Span", "str", "str | None", "bool", "int", "tuple[str, ...]"})


def _is_node(kind: type[object]) -> bool:
    """Plain values are none, nor are classes defined in the code."""
    return is_dataclass(kind) and kind is not ClassDecl


def _learn(kind: type[object]) -> _Inside | None:
    _INSIDE[kind] = _getter(kind) if _is_node(kind) else None
    return _INSIDE[kind]


def _getter(kind: type[Any]) -> _Inside:
    match [part.name for part in fields(kind) if part.type not in _PLAIN]:
        case []:
            return lambda _: ()
        case [name]:
            return lambda node: (getattr(node, name),)
        case names:
            return attrgetter(*reversed(names))
