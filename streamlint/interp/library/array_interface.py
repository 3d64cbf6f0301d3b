"""Objects of the tree that stand for memory, because they have an array interface or speak DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import classes
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import NONE, BufferV, HeapV, Shape, StreamV, TupleV, Value
from streamlint.trace import Purpose, SyncStream

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


DLPACK = "__dlpack__"
OF_DEVICE = "__cuda_array_interface__"
OF_HOST = "__array_interface__"


def memory_of(m: Machine, value: Value, span: Span, interface: str = OF_DEVICE) -> Value:
    """The memory of an object of the tree that has such an interface; other values as they are.

    ``{"data": (address, False), "stream": None}``: a stream that is named there is waited for.
    """
    if not isinstance(value, HeapV) or m.heap[value.id].cls is None:
        return value
    told = names.settle(m, m.python.attribute(m, value, interface, span))
    if not isinstance(told, HeapV) or m.heap[told.id].shape is not Shape.DICT:
        return value
    entries = m.heap[told.id].entries
    stream = names.settle(m, entries.get(symbols.constant("stream"), NONE))
    if isinstance(stream, StreamV):
        m.emit(
            SyncStream(m.site(span), m.lane, stream=stream.id, name="array interface", purpose=Purpose.ASIDE)
        )
    match names.settle(m, entries.get(symbols.constant("data"), NONE)):
        case TupleV((BufferV() as address, *_)):
            return address
        case _:
            return value


def given_to(m: Machine, value: Value, taker: StreamV, span: Span) -> Value:
    """What an object of the tree gives a library that takes it by DLPack; other values as they are.

    The taker names its stream: ``def __dlpack__(self, *, stream=None): return self.x.__dlpack__(stream=-1)``.
    """
    method = classes.method(m, value, DLPACK) if isinstance(value, HeapV) else None
    if method is None:
        return value
    return names.settle(m, m.python.call(m, method, [], {"stream": replace(taker, raw=True)}, span))
