"""Shared by the rules about memory that two libraries use: whether a pair's sides are two libraries'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.trace import (
    Copy,
    HandOff,
    Launch,
    OpId,
    StreamChoice,
    StreamKind,
)

if TYPE_CHECKING:
    from streamlint.order.conflicts import Conflict
    from streamlint.rules.base import Judged


def libraries(judged: Judged, conflict: Conflict) -> tuple[str, str] | None:
    """The libraries of the earlier and of the later side, if both are known and they differ."""
    earlier, later = judged.op(conflict.earlier), judged.op(conflict.later)
    if not isinstance(earlier, (Launch, Copy)) or not isinstance(later, (Launch, Copy)):
        return None
    first, second = earlier.library, later.library
    return (first, second) if first and second and first != second else None


def without_order(judged: Judged, conflict: Conflict) -> HandOff | None:
    """The hand-off that gave one side's memory to the other's library and ordered no streams.

    None if a later hand-off, between the two operations, did order them: then it is other work, on
    other streams, that races.
    """
    both = libraries(judged, conflict)
    if both is None:
        return None
    found: HandOff | None = None
    for number in range(conflict.later):
        op = judged.op(OpId(number))
        if not isinstance(op, HandOff) or op.buffer != conflict.buffer or op.taker not in ("", *both):
            continue
        if not op.orders:
            found = op
        elif number > conflict.earlier:
            return None
    return found


def between_defaults(judged: Judged, conflict: Conflict) -> bool:
    """Whether two libraries are on their default streams, as they are unless somebody enters another.

    PyTorch's current stream, CuPy's null stream and Numba's default stream are then one, the legacy
    default stream. ``y = torch.relu(x); kernel[grid, block](y)`` needs no wait. Where it is not known
    whose work is on the current stream, the other call must be one that could have named a stream.
    """
    first, second = judged.op(conflict.earlier), judged.op(conflict.later)
    if not isinstance(first, (Launch, Copy)) or not isinstance(second, (Launch, Copy)):
        return False
    by_kind = {judged.trace.streams[op.stream].kind: op for op in (first, second)}
    if by_kind.keys() != {StreamKind.CURRENT, StreamKind.LEGACY}:
        return False
    default, current = by_kind[StreamKind.LEGACY], by_kind[StreamKind.CURRENT]
    if not current.library:
        return default.choice is StreamChoice.LEFT_OUT
    return bool(default.library) and default.library != current.library
