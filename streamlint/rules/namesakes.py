"""Streams that a message would call by one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.rules.base import readable, stream_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.order.conflicts import Conflict
    from streamlint.trace import StreamId, Trace


def namesakes(trace: Trace, found: Sequence[Conflict]) -> dict[StreamId, bool]:
    """Streams that a message about one of the conflicts would call by one name."""
    together: dict[StreamId, bool] = {}
    for conflict in found:
        pair = stream_of(trace.ops[conflict.earlier]), stream_of(trace.ops[conflict.later])
        first, second = (trace.streams[stream] if stream is not None else None for stream in pair)
        if first is None or second is None or first is second:
            continue
        names = {readable(stream.name, "") for stream in (first, second)}
        if len(names) > 1:
            continue
        if first.span is None or second.span is None:
            apart = None if first.span is not second.span else False
        else:
            apart = not first.span.begins_in_line_of(second.span)
        if apart is not None:
            together |= {first.id: apart, second.id: apart}
    return together
