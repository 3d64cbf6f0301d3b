"""Comparisons: what is known of them, what the class of an object says, and how open ones are kept."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from streamlint.interp.facts import classes
from streamlint.interp.library import sizes, tensors
from streamlint.interp.python import conditions, known_comparisons
from streamlint.interp.state import elements, names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    Flavor,
    HeapV,
    QueryV,
    Shape,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.trace import Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint import ir
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_ORDER: dict[str, Callable[[object, object], bool]] = {
    "<": operator.lt,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}


def compare(m: Machine, op: str, left: Value, right: Value, e: ir.Compare) -> Value:
    left, right = names.settle(m, left), names.settle(m, right)
    if isinstance(left, TupleV) and isinstance(right, TupleV) and len(left.items) == len(right.items) == 1:
        return compare(m, op, left.items[0], right.items[0], e)
    if isinstance(left, QueryV) and left.status and isinstance(right, (ApiV, ConstV)):
        # while cudaStreamQuery(s)[0] != cudaSuccess: the comparison asks whether the work is complete.
        done = isinstance(right, ConstV) or not right.path.endswith("NotReady")
        return QueryV(left.of, negated=done != (op in ("==", "is")))
    if isinstance(left, QueryV) and left.told_by is not None and isinstance(right, ConstV):
        # while agent.check_xfer_state(handle) != "DONE"
        if right.value not in left.told_by:
            return m.fresh("state", e.span)
        done = right.value == left.told_by[0]
        return QueryV(left.of, negated=done != (op in ("==", "is")))
    told = _by_class(m, op, left, right, e.span)
    if told is not None:
        return told
    known = known_comparisons.answer(m, op, left, right)
    if known is None and op in ("in", "not in"):
        right = _contents(m, right)
        known = known_comparisons.answer(m, op, left, right)
    if known is not None:
        return ConstV(known)
    match left, right:
        case ConstV(a), ConstV(b) if op in _ORDER:
            try:
                return ConstV(_ORDER[op](a, b))
            except TypeError:
                return NONE
        case BufferV(flavor=Flavor.OPAQUE, region=(Symbol(part), *_)), ConstV() if part.startswith("."):
            # if plan.version == 0: an attribute of an unresolved result is hardly a tensor here.
            return conditions.comparison(m, op, left, right)
        case (BufferV(), other) | (other, BufferV()) if op in ("==", "!=") and _has_text(other):
            # getattr(output, "_fields", ()) != ("hidden_states",): no operator compares numbers with words.
            return conditions.comparison(m, op, left, right)
        case (BufferV(flavor=flavor), _) | (_, BufferV(flavor=flavor)) if (
            op not in ("is", "is not") and flavor is not Flavor.POINTER
        ):
            if op in ("in", "not in"):
                if isinstance(right, BufferV):
                    # Not for "name in {name: tensor}": a dict compares its keys.
                    tensors.read_on_host(m, right, e.span, op)
                return m.fresh("in", e.span)
            return sizes.as_mask(m, tensors.operate(m, e.span, f"operator {op}", [left, right]))
        case _:
            made = conditions.comparison(m, op, left, right)
            if op in ("==", "!=", "is", "is not"):
                conditions.against_constant(m, made, left, right)
            return made


def _has_text(value: Value) -> bool:
    match value:
        case ConstV(str()):
            return True
        case TupleV(items):
            return any(map(_has_text, items))
        case _:
            return False


def _contents(m: Machine, value: Value) -> Value:
    """A container by what is in it: ``device in ["cuda", "mtia"]`` is one question, asked twice.

    So is ``i in self.jobs`` and ``i in self.events``, where the two dicts have the same keys.
    """
    items = elements.listed(m, value)
    if isinstance(value, HeapV) and (held := m.heap[value.id]).shape is Shape.DICT:
        if held.open or not held.keys:
            return SymV(m.symbol_of_object(value))
        return TupleV(tuple(sorted(held.keys.values(), key=lambda one: symbols.text_of(symbol_of(one)))))
    if not items or not all(isinstance(item, ConstV) for item in items):
        return value
    return TupleV(tuple(items))


def _by_class(m: Machine, op: str, left: Value, right: Value, span: Span) -> Value | None:
    """What the class of an object says: ``def __eq__(self, other): return self.id == other.id``."""
    if op not in ("==", "!="):
        return None
    for one, other in ((left, right), (right, left)):
        method = classes.method(m, one, "__eq__") if isinstance(one, HeapV) else None
        if method is None:
            continue
        answer = m.python.call(m, method, [other], {}, span)
        if not (isinstance(answer, ApiV) and answer.path == "NotImplemented"):
            return _answer(m, op, answer, span)
    if not isinstance(left, HeapV) or not isinstance(right, HeapV) or left == right:
        return None
    return _by_fields(m, op, left, right)


def _answer(m: Machine, op: str, answer: Value, span: Span) -> Value:
    match answer:
        case ConstV(bool() as equal):
            return ConstV(equal == (op == "=="))
        case SymV(symbol):
            return SymV(symbol if op == "==" else symbols.negation(symbol))
        case _:
            return m.fresh("equality", span)


def _by_fields(m: Machine, op: str, left: HeapV, right: HeapV) -> Value | None:
    """Two objects of one dataclass are equal if all their fields are."""
    one, other = m.heap[left.id], m.heap[right.id]
    fields = classes.dataclass_fields(m, one.cls) if one.cls is not None and one.cls is other.cls else None
    if not fields:
        return None
    told = [
        known_comparisons.answer(m, "==", one.attrs[name], other.attrs[name])
        if name in one.attrs and name in other.attrs
        else None
        for name in fields
    ]
    if False in told:
        return ConstV(op != "==")
    return conditions.comparison(m, op, left, right) if None in told else ConstV(op == "==")
