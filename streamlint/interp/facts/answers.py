"""Which answer a test has that is known without looking at memory or asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import names
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
    comparison_key,
    question,
)
from streamlint.models import torch
from streamlint.models.cuda_runtime import SUCCESS_NAMES

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def constant(m: Machine, value: Value) -> bool | None:
    """The truth of a value if it is known without looking at memory or asking."""
    value = names.settle(m, value)
    match value:
        case ConstV(plain):
            return bool(plain)
        case TupleV(items):
            return bool(items)
        case HeapV():
            held = m.heap[value.id]
            if held.shape is Shape.INSTANCE:
                return True
            return True if (held.items or held.attrs) else (None if held.open else False)
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
        case SymV(key):
            plain, negated = question(key)
            if plain in m.compared:
                return negated if is_excluded(m, plain) else None
            call = plain.rfind("()")
            return negated if call > 0 and plain.endswith(torch.FALSE_ON_CUDA, 0, call) else None
        case BufferV() | QueryV() | MethodV():
            # An attribute without a row may be a property: `if stream.is_blocking:`
            return None


def taken(m: Machine, value: Value) -> bool | None:
    """The same, or what the path has answered before."""
    known = constant(m, value)
    if known is not None or not isinstance(value, SymV):
        return known
    plain, negated = question(value.key)
    answer = m.oracle.memo.get(plain)
    return None if answer is None else (answer == 0) != negated


def is_excluded(m: Machine, key: str) -> bool:
    """Whether the path has taken something that a comparison with a constant contradicts."""
    if key not in m.compared:
        return False
    side, other = m.compared[key]
    unequal = (m.oracle.memo.get(comparison_key(op, side, other)) == 0 for op in "<>")
    return m.equal.get(side, other) != other or any(unequal)
