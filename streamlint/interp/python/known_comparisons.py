"""Comparisons whose answer does not depend on unknown values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import answers, classes
from streamlint.interp.python import keys
from streamlint.interp.state import lengths, rings, symbols
from streamlint.interp.state.values import (
    ApiV,
    BufferV,
    ConstV,
    DeviceV,
    EventV,
    HeapObject,
    HeapV,
    MethodV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models.cuda_runtime import SUCCESS_NAMES
from streamlint.models.python import GIVES_NUMBER
from streamlint.trace import StreamKind

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol

NEGATED = {"!=": "==", "is not": "is", "not in": "in"}


def answer(m: Machine, op: str, left: Value, right: Value) -> bool | None:
    """The answer of a comparison; None where that is open."""
    base = NEGATED.get(op, op)
    told = _known(m, base, left, right)
    if told is None:
        told = lengths.answer(m, base, left, right)
    if told is None and isinstance(left, SymV):
        told = _by_order(m, base, left.symbol, symbol_of(right))
    return told if told is None or base == op else not told


def _by_order(m: Machine, op: str, left: Symbol, right: Symbol) -> bool | None:
    """What earlier answers tell, the constructor's too: of ``mode`` there, and of ``self.mode`` here."""
    left = lengths.same(m, left)
    asked = answers.asked_of(m, op, left, right) | answers.bounds_of(m, left, right)
    told = answers.by_order(op, asked.values()) if asked else None
    if told is not None and m.frame.touches and not m.constructing:
        m.oracle.asked_again(asked)
    return told


_NO_HANDLES = (-1, 1, 2)
"""What DLPack passes for no stream, and for the default streams; other handles are addresses, or 0."""
_MADE = (StreamKind.BLOCKING, StreamKind.NON_BLOCKING)


def _known(m: Machine, op: str, left: Value, right: Value) -> bool | None:
    match op, left, right:
        case "is" | "==", SymV(symbols.Call(symbols.Name(called))), ConstV(None) if called in GIVES_NUMBER:
            # n = len(xs), then if n is None
            return False
        case "is" | "==", ConstV(None), _ if not isinstance(right, SymV):
            return isinstance(right, ConstV) and right.value is None
        case "is" | "==", _, ConstV(None) if not isinstance(left, SymV):
            return isinstance(left, ConstV) and left.value is None
        case "is" | "==", ConstV(a), ConstV(b):
            return a == b
        case "==" | "is", ApiV(a), ApiV(b):
            return a.rpartition(".")[2] == b.rpartition(".")[2]
        case "<" | ">" | "<=" | ">=", SymV(a), SymV(b) if a is b:
            # buf = torch.empty(n), and then: if buf.numel() < n
            return "=" in op
        case "==" | "<=", SymV(a), ConstV(0) if a in m.forms.zero or a in m.forms.positive:
            return a in m.forms.zero
        case ">", SymV(a), ConstV(0) if a in m.forms.zero or a in m.forms.positive:
            return a in m.forms.positive
        case "==", SymV(a), SymV(b) if not m.forms.zero.isdisjoint((a, b)):
            # storage.size() == shape.numel(), once it was given back
            return False
        case "==", StreamV(raw=True), ConstV(int() as handle) if handle in _NO_HANDLES:
            return None if m.streams[left.id].kind in (StreamKind.LEGACY, StreamKind.PER_THREAD) else False
        case "==", StreamV(raw=True), ConstV(0) if m.streams[left.id].kind in _MADE:
            # handle = torch.cuda.current_stream().cuda_stream, in a block of a stream that the code has made
            return False
        case "==", ApiV(a), ConstV(int() as code) if a.endswith(SUCCESS_NAMES) or code == 0:
            return (code == 0) == a.endswith(SUCCESS_NAMES)
        case "is" | "==", SymV(a), SymV(b) if a is not b and _are_counted(m, a, b):
            return False
        case "==", HeapV(a), HeapV(b) if a != b and Shape.INSTANCE not in (m.heap[a].shape, m.heap[b].shape):
            # Two lists with equal elements are equal.
            return None
        case "is" | "==", (StreamV() | EventV() | HeapV()), (StreamV() | EventV() | HeapV()):
            return left == right if not _may_be_equal(m, left, right) else None
        case "is" | "==", DeviceV(a), DeviceV(b):
            return a == b if not (a.startswith("?") or b.startswith("?")) else None
        case "==", MethodV(DeviceV() as a, "id"), MethodV(DeviceV() as b, "id"):
            return _known(m, op, a, b)
        case "in", _, _:
            return _is_in(m, left, right)
        case _:
            return None


def _is_in(m: Machine, left: Value, right: Value) -> bool | None:
    match left, right:
        case StreamV(), TupleV(items):
            told = [_known(m, "==", left, item) for item in items]
            return True if True in told else None if None in told else False
        case ConstV(a), TupleV(items) if all(isinstance(item, ConstV) for item in items):
            return any(isinstance(item, ConstV) and item.value == a for item in items)
        case ConstV(str() as a), ConstV(str() as b):
            return a in b
        case _, HeapV():
            return _is_held(m, left, m.heap[right.id])
        case _:
            return None


def _is_held(m: Machine, left: Value, held: HeapObject) -> bool | None:
    is_dict = held.shape is Shape.DICT
    left = keys.named_before(m, held, rings.slot(m, left)) if is_dict else left
    if is_dict and symbol_of(left) in held.entries:
        return True
    if not isinstance(left, BufferV) and left in held.items and not held.role:
        return True
    if held.open or held.shape is Shape.INSTANCE:
        return None
    if is_dict and (
        isinstance(left, ConstV) or all(keys.are_two(m, symbol_of(left), one) for one in held.entries)
    ):
        return False
    return None if held.named else _is_among(m, left, held.items)


def _is_among(m: Machine, sought: Value, items: list[Value]) -> bool | None:
    """Whether a list or a set of known elements holds a stream, an event or an object.

    ``if stream not in self._forked:``, of a list with the streams of earlier passes: as often as it is asked,
    what has come and gone since counts, so that no answer of the path stands for it.
    """
    if items and not isinstance(sought, (StreamV, EventV, HeapV)):
        return None
    told = [None if _says_itself(m, sought, item) else _known(m, "==", sought, item) for item in items]
    return True if True in told else None if None in told else False


def _says_itself(m: Machine, *compared: Value) -> bool:
    """Whether the class of one of two objects may say when they are equal: ``@dataclass``, ``__eq__``."""
    return any(
        isinstance(one, HeapV)
        and (cls := m.heap[one.id].cls) is not None
        and (classes.method(m, one, "__eq__") is not None or classes.dataclass_fields(m, cls) is not None)
        for one in compared
    )


def _are_counted(m: Machine, one: Symbol, other: Symbol) -> bool:
    """Whether two elements were picked from a range at two places: no number is in it twice.

    ``active = [g for g in range(n) if sizes[g]]``, and ``g == active[0]`` of the second one.
    """
    source = _range_of(m, one)
    return source is not None and source is _range_of(m, other)


def _range_of(m: Machine, symbol: Symbol) -> Symbol | None:
    """The range of unknown length that an element at a known place of a list came from."""
    match symbol:
        case symbols.Item(symbols.Item(symbols.Thing("object", int() as number) as of, symbols.EACH), at):
            is_known = isinstance(at, symbols.Const)
            return of if is_known and m.heap[number].role == "range" else None
        case _:
            return None


def _may_be_equal(m: Machine, left: Value, right: Value) -> bool:
    """The stream current at entry may be any stream: ``s == torch.cuda.current_stream()`` stays open."""
    if not (isinstance(left, StreamV) and isinstance(right, StreamV)) or left == right:
        return False
    return any(m.streams[stream.id].span is None for stream in (left, right))
