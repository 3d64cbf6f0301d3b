"""Stream captures: which streams and events are inside, and what a captured call leaves in the trace.

A captured call records a node of a graph and runs nothing: its memory accesses happen when the graph
is replayed. A stream joins a capture by waiting for an event that was recorded inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.interp.values import NONE, ApiV, ConstV, StreamV, Value
from streamlint.models.schema import Lib
from streamlint.trace import (
    BeginCapture,
    Copy,
    Doubt,
    EndCapture,
    EventId,
    HostEffect,
    Launch,
    Op,
    Record,
    StreamId,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.interp.machine import Machine
    from streamlint.source import Span

_SURE: frozenset[Doubt] = frozenset()
_RELAXED_HANDLE = 2
_DEFAULT_RELAXED = frozenset({Lib.CUPY, Lib.CORE})
"""``Stream.begin_capture()`` and ``begin_building()`` are relaxed unless told otherwise."""


@dataclass(slots=True)
class Captures:
    """What is being captured at this point of a path."""

    begun: bool = False
    """Whether the path has begun any capture."""
    external: set[EventId] = field(default_factory=set)
    """Events that a capture records and waits for as nodes: ``torch.cuda.Event(external=True)``."""
    _open: list[StreamId] = field(default_factory=list)
    _streams: set[StreamId] = field(default_factory=set)
    _events: set[EventId] = field(default_factory=set)

    @property
    def active(self) -> bool:
        return bool(self._open)

    @property
    def streams(self) -> list[StreamId]:
        """The streams inside a capture, in the order in which they were made."""
        return sorted(self._streams)

    def has(self, stream: StreamId) -> bool:
        """Whether work queued on ``stream`` is captured now."""
        return self.active and stream in self._streams

    def recorded(self, op: Op) -> tuple[Op, ...]:
        """What ``op`` leaves in the trace, and what it means to the captures."""
        match op:
            case BeginCapture(stream=stream):
                self.begun = True
                self._open.append(stream)
                self._streams.add(stream)
            case EndCapture():
                if self._open:
                    self._open.pop()
                if not self._open:
                    self._streams.clear()
                    self._events.clear()
            case _ if not self.active:
                pass
            case Record(event=event) | Wait(event=event) if event in self.external:
                return ()
            case Record(stream=stream, event=event):
                (self._events.add if self.has(stream) else self._events.discard)(event)
            case Wait(stream=stream, event=event) if event in self._events:
                self._streams.add(stream)
            case Launch() | Copy():
                return self._captured(op)
            case _:
                pass
        return (op,)

    def _captured(self, op: Launch | Copy) -> tuple[Op, ...]:
        node = Launch(op.at, op.lane, op.doubts, stream=op.stream, accesses=(), name=op.name)
        if isinstance(op, Copy) and op.host is HostEffect.BLOCKS and self.has(op.stream):
            # x.cpu() still waits for its stream, which a capture forbids.
            return (node, SyncStream(op.at, op.lane, op.doubts, stream=op.stream, name=op.name))
        return (node,)


def begin(m: Machine, stream: StreamV, lib: Lib, mode: Value | None, span: Span) -> None:
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


def end(m: Machine, stream: StreamV, lib: Lib | None, span: Span, doubts: frozenset[Doubt] = _SURE) -> None:
    """Ends a capture. Warp joins the streams that were forked; other libraries leave that to the caller."""
    for other in m.captures.streams if lib is Lib.WARP else ():
        if other != stream.id:
            event = m.new_event("the event of the end of the capture", span, lib)
            m.emit(Record(m.site(span), m.lane, stream=other, event=event.id))
            m.emit(Wait(m.site(span), m.lane, stream=stream.id, event=event.id))
    m.emit(EndCapture(m.site(span), m.lane, doubts, stream=stream.id))


def by_hand(m: Machine, args: list[Value], kwargs: dict[str, Value], span: Span, *, begins: bool) -> Value:
    """``graph.capture_begin(pool, capture_error_mode)`` and ``capture_end()`` capture the current stream."""
    stream = m.current_stream(Lib.TORCH)
    if begins:
        mode = kwargs.get("capture_error_mode", args[1] if len(args) > 1 else NONE)
        begin(m, stream, Lib.TORCH, mode, span)
    else:
        m.emit(EndCapture(m.site(span), m.lane, stream=stream.id))
    return NONE


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
    """``cudaEventWaitExternal`` and ``cudaEventRecordExternal``: a capture makes a node of the call."""
    match flags:
        case ConstV(1):
            return True
        case ApiV(path):
            return path.lower().endswith("external")
        case _:
            return False
