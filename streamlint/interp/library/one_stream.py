"""Streams that a path took to be equal: ``if torch.cuda.current_stream() != side:`` was not entered.

On such a path the two are one stream, and all that they do is in order.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.interp.state.values import StreamV
from streamlint.trace import Barrier, KeepAlive, StreamKind, Trace

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.trace import Op, StreamId

EQUAL = re.compile(r"\((\S+) (?:==|is) (\S+)\)")
"""The key of an open comparison: see ``decide.comparison``."""

EQUAL_STREAMS = re.compile(r"\(stream\d+ (?:==|is) |\(\S+ (?:==|is) stream\d+\)")
"""The same, where one side is known to be a stream."""

_STREAM = re.compile(r"stream(\d+)")


def merged(m: Machine, trace: Trace) -> Trace:
    """The trace with one stream for those that are equal on its path."""
    same: dict[StreamId, StreamId] = {}
    for key, answer in m.oracle.memo.items():
        sides = EQUAL.fullmatch(key) if answer == 0 else None
        pair = [_stream(m, side, same) for side in sides.groups()] if sides is not None else []
        if len(pair) != 2 or None in pair or pair[0] == pair[1]:
            continue
        # What the stream current at entry is, the other one says.
        gone, kept = sorted((s for s in pair if s is not None), key=lambda s: _is_known(trace, s))
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


def _stream(m: Machine, key: str, same: dict[StreamId, StreamId]) -> StreamId | None:
    """The stream that one side of a comparison stands for."""
    number = _STREAM.fullmatch(key)
    found = next((s for s in m.streams if number and s == int(number[1])), None)
    role = m.roles.get(key)
    if found is None and isinstance(role, StreamV):
        found = role.id
    return None if found is None else same.get(found, found)


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
