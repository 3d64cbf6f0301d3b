"""All parts of a piece of code."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from streamlint.ir.decls import ClassDecl, Function
from streamlint.ir.nodes import Attr, Call, Name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.ir.nodes import Expr


def walk(node: object, *, functions: bool = False) -> Iterator[object]:
    """A statement or expression and everything in it, outside in.

    Classes defined inside it are not entered, and functions only if asked for.
    """
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, tuple):
            waiting.extend(reversed(here))
            continue
        names = _parts(here)
        if names is None or (isinstance(here, Function) and not functions):
            continue
        yield here
        waiting.extend(getattr(here, name) for name in reversed(names))


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
    """What stands right below a node, in order: nodes, tuples of nodes, and plain values."""
    if isinstance(node, tuple):
        return node
    return [getattr(node, name) for name in _parts(node) or ()]


_KNOWN: dict[type[object], tuple[str, ...] | None] = {}


def _parts(node: object) -> tuple[str, ...] | None:
    """The fields of a node's class; None for plain values, and for classes defined in the code."""
    kind = type(node)
    if kind not in _KNOWN:
        _KNOWN[kind] = None
        if is_dataclass(node) and not isinstance(node, (ClassDecl, type)):
            _KNOWN[kind] = tuple(part.name for part in fields(node) if part.name != "span")
    return _KNOWN[kind]
