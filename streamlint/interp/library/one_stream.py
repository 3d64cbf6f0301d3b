"""Streams that a path took to be equal: ``if torch.cuda.current_stream() != side:`` was not entered.

On such a path the two are one stream, and all that they do is in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state.values import ConstV, StreamV, SymV
from streamlint.trace import Barrier, KeepAlive, StreamKind, Trace

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import Value
    from streamlint.trace import Op, StreamId

_NULL = ConstV(0)
"""The handle of the legacy default stream."""


def merged(m: Machine, trace: Trace) -> Trace:
    """The trace with one stream for those that are equal on its path."""
    same: dict[StreamId, StreamId] = {}
    for key, answer in m.oracle.memo.items():
        asked = m.comparisons.get(key) if answer == 0 else None
        if asked is None or not asked.is_equality:
            continue
        left, right = _stream(m, asked.left, same), _stream(m, asked.right, same)
        if asked.right == _NULL and left is not None:
            # handle == 0: what is current is the legacy default stream
            right = _default(m, left)
        if left is None or right is None or left == right:
            continue
        # What the stream current at entry is, the other one says.
        gone, kept = sorted((left, right), key=lambda s: _is_known(trace, s))
        same = {gone: kept} | {one: kept if other == gone else other for one, other in same.items()}
    if not same:
        return trace
    buffers = {
        number: replace(buffer, alloc_stream=same.get(buffer.alloc_stream, buffer.alloc_stream))
        if buffer.alloc_stream is not None
        else buffer
        for number, buffer in trace.buffers.items()
    }
    return replace(trace, ops=tuple(_moved(op, same) for op in trace.ops), buffers=buffers)


def _stream(m: Machine, side: Value, same: dict[StreamId, StreamId]) -> StreamId | None:
    """The stream that one side of a comparison stands for, as the path showed in the end."""
    found = m.roles.get(side.symbol) if isinstance(side, SymV) else side
    return same.get(found.id, found.id) if isinstance(found, StreamV) else None


def _default(m: Machine, like: StreamId) -> StreamId | None:
    found = m.defaults.get((StreamKind.LEGACY, m.streams[like].device))
    return found.id if found is not None else None


def _is_known(trace: Trace, stream: StreamId) -> bool:
    return trace.streams[stream].kind is not StreamKind.CURRENT


def _moved(op: Op, same: dict[StreamId, StreamId]) -> Op:
    if isinstance(op, Barrier):
        return replace(op, streams=tuple(same.get(stream, stream) for stream in op.streams))
    stream = getattr(op, "stream", None)
    if stream is None or (stream not in same and stream not in same.values()):
        return op
    if isinstance(op, KeepAlive):
        # It is meant for the paths on which there are two streams.
        return Barrier(op.at, op.lane, streams=(), name=op.name)
    return replace(op, stream=same.get(stream, stream))
