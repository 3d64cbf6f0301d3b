"""Which answer a test has that is known without looking at memory or asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import arguments, names, once, symbols
from streamlint.interp.state.values import (
    ApiV,
    BufferV,
    CallbackV,
    ClassV,
    ConstV,
    ContextV,
    DeviceV,
    EventV,
    Flavor,
    FuncV,
    GeneratorV,
    GraphV,
    HeapV,
    MethodV,
    ModuleV,
    PartialV,
    QueryV,
    Shape,
    SliceV,
    StreamV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models import python, torch
from streamlint.models.cuda_runtime import SUCCESS_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def constant(m: Machine, value: Value) -> bool | None:
    """The truth of a value if it is known without looking at memory or asking."""
    value = names.settle(m, value)
    match value:
        case ConstV(plain):
            return bool(plain)
        case TupleV(items):
            # def run(self, *args): assert not args: nobody has to pass any.
            return None if items and all(map(arguments.is_rest, items)) else bool(items)
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return True
            return True if (held.items or held.attrs or held.entries) else (None if held.open else False)
        case (
            StreamV()
            | EventV()
            | GraphV()
            | CallbackV()
            | FuncV()
            | ClassV()
            | ModuleV()
            | PartialV()
            | ContextV()
            | DeviceV()
            | GeneratorV()
            | SliceV()
        ):
            return True
        case ApiV(path):
            return not path.endswith(SUCCESS_NAMES)
        case BufferV(flavor=Flavor.POINTER):
            return True
        case SymV(symbol) if symbol in m.forms.positive or symbol in m.forms.zero:
            return symbol in m.forms.positive
        case SymV(symbol):
            asked, negated = symbols.question(symbol)
            if asked in m.compared:
                return negated if is_excluded(m, asked) else None
            return negated if _is_other_accelerator(asked) else None
        case BufferV() | QueryV() | MethodV():
            # An attribute without a row may be a property: `if stream.is_blocking:`
            return None


def taken(m: Machine, value: Value) -> bool | None:
    """The same, or what the path has answered before."""
    known = constant(m, value)
    if known is not None or not isinstance(value, SymV):
        return known
    plain, negated = symbols.question(value.symbol)
    answer = m.oracle.memo.get(plain)
    return None if answer is None else (answer == 0) != negated


def _is_other_accelerator(asked: Symbol) -> bool:
    """``torch.npu.is_available()``"""
    match asked:
        case symbols.Fresh(symbols.Call(symbols.Name(path), _)):
            return path in torch.FALSE_ON_CUDA
        case _:
            return False


def is_excluded(m: Machine, key: Symbol) -> bool:
    """Whether the path has taken something that a comparison with a constant contradicts."""
    if key not in m.compared:
        return False
    side, other = m.compared[key]
    unequal = (m.oracle.memo.get(symbols.Compare(op, side, other)) == 0 for op in "<>")
    return m.equal.get(side, other) != other or any(unequal)


_ORDERS = {op: frozenset(op.replace("==", "=")) for op in ("<", ">", "==", "<=", ">=")}
"""In which of the three orders of two numbers a comparison holds."""
_ANY = frozenset("<=>")
_TURNED = str.maketrans("<>", "><")


def asked_of(m: Machine, op: str, left: Symbol, right: Symbol) -> dict[Symbol, frozenset[str]]:
    """What the path has asked of two numbers, and in which orders each answer leaves them.

    Nothing for a comparison that is not about their order.
    """
    found: dict[Symbol, frozenset[str]] = {}
    if op not in _ORDERS:
        return found
    for asked, holds in _ORDERS.items():
        turned = asked.translate(_TURNED)
        for question in ((asked, left, right), (turned, right, left)):
            compared = once.made_before(symbols.Compare, *question)
            answer = m.oracle.memo.get(compared) if compared is not None else None
            if compared is not None and answer is not None:
                found[compared] = holds if answer == 0 else _ANY - holds
    return found


_NEAR = (-1, 0, 1, 2)
"""Numbers with which a size is mostly compared before it is compared with another one."""


def bounds_of(m: Machine, left: Symbol, right: Symbol) -> dict[Symbol, frozenset[str]]:
    """What the path has asked of a number and other numbers tells of it and this one.

    ``streams = [...] if lanes > 1 else None``, and then ``if lanes == 0``: it is not. A whole number is 2 or
    more then: ``if min(len(lanes), rows) >= 2``.
    """
    found: dict[Symbol, frozenset[str]] = {}
    number = symbols.number(right)
    if number is None:
        return found
    for other in _NEAR:
        if other != number:
            for asked, left_open in asked_of(m, "==", left, symbols.constant(other)).items():
                found[asked] = _seen_from(left_open, number - other, whole=_is_whole(left))
    return found


def _is_whole(symbol: Symbol) -> bool:
    """Whether something is a whole number, by what computes it."""
    match symbol:
        case symbols.Binary("//"):
            return True
        case symbols.Call(symbols.Name(called), args):
            return called in python.GIVES_WHOLE or (
                called in python.GIVES_ONE_OF and any(map(_is_whole, args))
            )
        case _:
            return False


def _seen_from(left_open: frozenset[str], far: int, *, whole: bool) -> frozenset[str]:
    """The orders of something and a second number, by those of it and a first one, so ``far`` below that."""
    this_side, beyond = ("<", ">") if far > 0 else (">", "<")
    if beyond not in left_open:
        return frozenset(this_side)
    return _ANY - {this_side} if whole and abs(far) == 1 and left_open == {beyond} else _ANY


def by_order(op: str, left_open: Iterable[frozenset[str]]) -> bool | None:
    """What earlier answers say of two numbers: ``if used == size: send()``, and then ``if used < size:``."""
    open_ = _ANY.intersection(*left_open)
    return True if open_ <= _ORDERS[op] else False if open_.isdisjoint(_ORDERS[op]) else None
