"""What is held back where the earlier statement names no stream: different schedules show different races."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from streamlint.confirm.gpu.handles import named_among, streams_by_library
from streamlint.confirm.terms import assert_never

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.confirm.gpu.gate import Gate


class Hold(Enum):
    """Which of the streams that a statement may run on. Libraries are named as by ``streams_by_library``."""

    CURRENT = "current"
    """The current streams of all loaded libraries."""
    LATE = "late"
    """The same, once the operands are there: ``fetch()`` in ``fetch().add_(2)`` may wait for the device."""
    TORCH = "torch"
    """That of PyTorch alone: ``a *= 2`` may be CuPy's, and what reads ``a`` must not be held back with it."""
    CUPY = "cupy"
    NUMBA = "numba"
    WARP = "warp"
    DEFAULT = "default"
    """The default stream: `x.data.memset(0, n)` of CuPy runs there, whatever stream is current."""
    STATEMENT = "statement"
    """Those of ``CURRENT``, before the statement, although driver calls can be seen: it has made none."""
    ELSEWHERE = "elsewhere"
    """Those of the devices that are not current: ``host.copy_(x)`` runs on the device of ``x``."""


def hold_back(gate: Gate, hold: Hold, arguments: Sequence[object]) -> list[Hold]:
    """Hold back the streams among the arguments of a statement; if there are none, what ``hold`` says.

    Returns the holds that would be other schedules.
    """
    if hold is Hold.ELSEWHERE:
        gate.hold_elsewhere()
        return []
    named = named_among(arguments)
    current = {} if named else streams_by_library()
    match hold:
        case _ if named:
            streams = named
        case Hold.CURRENT | Hold.LATE | Hold.STATEMENT:
            streams = sorted(set(current.values())) or [0]
        case Hold.TORCH | Hold.CUPY | Hold.NUMBA | Hold.WARP:
            streams = [stream for library, stream in current.items() if library == hold.value]
        case Hold.DEFAULT:
            streams = [0]
        case _:
            assert_never(hold)
    for stream in streams:
        gate.hold(stream)
    if hold is not Hold.CURRENT or named:
        return []
    others = [Hold(library) for library in current] if len(streams) > 1 else []
    return others if 0 in streams else [*others, Hold.DEFAULT]
