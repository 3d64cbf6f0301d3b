"""Calls that begin a capture or ask for one: see ``interp/state/captures.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import arrangement
from streamlint.interp.state.values import ApiV, ConstV, StreamV, Value
from streamlint.models.schema import Lib
from streamlint.trace import (
    BeginCapture,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_RELAXED_HANDLE = 2
_DEFAULT_RELAXED = frozenset({Lib.CUPY, Lib.CORE})
"""``Stream.begin_capture()`` and ``begin_building()`` are relaxed unless told otherwise."""


def begin(
    m: Machine, stream: StreamV, lib: Lib, mode: Value | None, span: Span, *, pool: Value | None = None
) -> None:
    """Begins a capture of ``stream``; of an unknown mode nothing is assumed."""
    match mode:
        case None | ConstV(None):
            relaxed = lib in _DEFAULT_RELAXED
        case ConstV(str() as name):
            relaxed = name.lower() == "relaxed"
        case ConstV(int() as number):
            relaxed = number == _RELAXED_HANDLE
        case ApiV(path):
            relaxed = path.lower().endswith("relaxed")
        case _:
            relaxed = True
    m.emit(BeginCapture(m.site(span), m.lane, stream=stream.id, relaxed=relaxed))
    m.captures.begins(stream.id, pool, arrangement.of_frames(m))


def predicate(m: Machine, name: str, receiver: Value, lib: Lib) -> bool | None:
    """``is_current_stream_capturing()`` and ``stream.is_capturing()``, where the path shows the answer.

    A function that was not seen to begin a capture may be called inside one.
    """
    match name, receiver:
        case "is_current_stream_capturing", _:
            stream = m.current_stream(lib)
        case "is_capturing", StreamV():
            stream = receiver
        case _:
            return None
    return m.captures.has(stream.id) if m.captures.begun else None


def is_external(flags: Value) -> bool:
    """``cudaEventWaitExternal`` and ``cudaEventRecordExternal``: a capture makes a node of the call.

    Outside of a capture the call is one like any other.
    """
    match flags:
        case ConstV(1):
            return True
        case ApiV(path):
            return path.lower().endswith("external")
        case _:
            return False
