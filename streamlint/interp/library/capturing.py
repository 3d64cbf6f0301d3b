"""Calls that begin a capture or ask for one: see ``interp/state/captures.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import arrangement
from streamlint.interp.state.values import ApiV, ConstV, StreamV, Value
from streamlint.models.schema import Lib
from streamlint.trace import BeginCapture, CaptureMode, Doubt

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_ESCAPED = frozenset({Doubt.ESCAPE})
_DEFAULT_RELAXED = frozenset({Lib.CUPY, Lib.CORE})
"""``Stream.begin_capture()`` and ``begin_building()`` are relaxed unless told otherwise."""


def begin(
    m: Machine, stream: StreamV, lib: Lib, mode: Value | None, span: Span, *, pool: Value | None = None
) -> None:
    """Begins a capture of ``stream``; of an unknown mode nothing is assumed."""
    doubts = _ESCAPED if m.blocks_of else frozenset()
    m.emit(BeginCapture(m.site(span), m.lane, doubts, stream=stream.id, mode=_mode(lib, mode)))
    m.captures.begins(stream.id, pool, arrangement.of_frames(m))


def _mode(lib: Lib, given: Value | None) -> CaptureMode:
    match given:
        case None | ConstV(None):
            return CaptureMode.RELAXED if lib in _DEFAULT_RELAXED else CaptureMode.GLOBAL
        case ConstV((str() | int()) as name) | ApiV(name):
            return CaptureMode.named(name)
        case _:
            return CaptureMode.RELAXED


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
