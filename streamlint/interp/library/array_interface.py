"""Objects of the tree that stand for device memory, because they have ``__cuda_array_interface__``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import NONE, BufferV, HeapV, Shape, StreamV, TupleV, Value
from streamlint.trace import SyncStream

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def memory_of(m: Machine, value: Value, span: Span) -> Value:
    """The memory of an object of the tree that has ``__cuda_array_interface__``; other values as they are.

    ``{"data": (address, False), "stream": None}``: a stream that is named there is waited for.
    """
    if not isinstance(value, HeapV) or m.heap[value.id].cls is None:
        return value
    interface = names.settle(m, m.python.attribute(m, value, "__cuda_array_interface__", span))
    if not isinstance(interface, HeapV) or m.heap[interface.id].shape is not Shape.DICT:
        return value
    entries = m.heap[interface.id].entries
    stream = names.settle(m, entries.get(symbols.constant("stream"), NONE))
    if isinstance(stream, StreamV):
        m.emit(SyncStream(m.site(span), m.lane, stream=stream.id, name="array interface"))
    match names.settle(m, entries.get(symbols.constant("data"), NONE)):
        case TupleV((BufferV() as address, *_)):
            return address
        case _:
            return value
