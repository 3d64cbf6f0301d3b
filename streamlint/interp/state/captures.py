"""Stream captures: which streams and events are inside, and what a captured call leaves in the trace.

A captured call records a node of a graph and runs nothing: its memory accesses happen when the graph
is replayed (``interp/library/graphs.py``). A stream joins a capture by waiting for an event that was recorded
inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state.budgets import Budgets, Most
from streamlint.trace import (
    WHOLE,
    Access,
    BeginCapture,
    Buffer,
    BufferId,
    Copy,
    Doubt,
    EndCapture,
    EventId,
    GraphId,
    HostEffect,
    Launch,
    Mode,
    Op,
    Purpose,
    Record,
    Region,
    Space,
    StreamId,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from streamlint.interp.state.values import Value

MOST_REGIONS = Most(32, "places of what was captured")
"""Places of one buffer that a graph keeps apart."""


@dataclass(slots=True)
class Recording:
    """What a capture has taken up: the memory that a launch of its graph reads and writes."""

    lost: bool = False
    """It waits for an event from outside: the capture fails, and there is no graph."""
    pool: Value | None = None
    """Which memory it allocates from, where that is not the allocator's usual one."""
    waits: list[EventId] = field(default_factory=list)
    records: list[EventId] = field(default_factory=list)
    """Events that a launch waits for and records, somewhere inside."""
    modes: dict[tuple[BufferId, Region, frozenset[Doubt]], Mode] = field(default_factory=dict)
    """What is done to each place, all nodes together."""
    written: dict[BufferId, None] = field(default_factory=dict)
    """What is written, in the order of the last writes."""
    stood: tuple[tuple[str, object], ...] = ()
    """Where memory stood when the capture began."""
    backwards: set[int] = field(default_factory=set)
    """Nodes that write what nothing has named yet: ``loss.backward()``, and ``w.grad`` behind the capture."""

    def add(self, op: Launch | Copy) -> None:
        for access in op.accesses:
            place = (access.buffer, access.region, access.doubts | op.doubts)
            known = self.modes.get(place)
            # What the graph itself writes first, it does not read from before.
            self.modes[place] = access.mode if known in (None, access.mode) else _both(known)
            if access.mode.writes:
                self.written.pop(access.buffer, None)
                self.written[access.buffer] = None

    def carried(self, swapped: Iterable[tuple[BufferId, BufferId]]) -> tuple[tuple[BufferId, BufferId], ...]:
        """Of pairs that were swapped: those of what a launch begins with, and of its last result."""
        if self.lost:
            return ()
        modes: dict[BufferId, set[Mode]] = {}
        for (buffer, _, _), mode in self.modes.items():
            modes.setdefault(buffer, set()).add(mode)
        order = list(self.written)
        return tuple(
            (first, last)
            for first, last in swapped
            if any(mode.reads for mode in modes.get(first, ()))
            and modes.get(last) == {Mode.WRITE}
            and (first not in self.written or order.index(first) < order.index(last))
        )

    def sum_up(self, buffers: Mapping[BufferId, Buffer], budgets: Budgets) -> None:
        """Called when the capture ends: a launch then costs a few accesses a buffer, whatever was captured.

        What is copied from and to pageable memory is left out: a launch returns when it has read the one, and
        when the other is written (measured: docs/semantics.md).
        """
        regions: dict[BufferId, int] = {}
        for buffer, _, _ in self.modes:
            regions[buffer] = regions.get(buffer, 0) + 1
        known, self.modes = self.modes, {}
        for (buffer, region, doubts), mode in known.items():
            if self.lost or buffers[buffer].space is Space.PAGEABLE:
                continue
            many = not budgets.allows(MOST_REGIONS, regions[buffer])
            place = (buffer, WHOLE, doubts | {Doubt.ALIAS}) if many else (buffer, region, doubts)
            old = self.modes.get(place, mode)
            self.modes[place] = mode if old is mode else Mode.UPDATE

    def accesses(self) -> tuple[Access, ...]:
        return tuple(
            Access(buffer, mode, region, doubts) for (buffer, region, doubts), mode in self.modes.items()
        )

    def writes(self) -> tuple[Access, ...]:
        """What no one has written yet when the capture ends."""
        return () if self.lost else tuple(access for access in self.accesses() if access.mode.writes)


def _both(first: Mode) -> Mode:
    return Mode.WRITE if first is Mode.WRITE else Mode.UPDATE


@dataclass(slots=True)
class Captures:
    """What is being captured at this point of a path."""

    begun: bool = False
    """Whether the path has begun any capture."""
    external: set[EventId] = field(default_factory=set)
    """Events that a capture records and waits for as nodes: ``torch.cuda.Event(external=True)``."""
    into: dict[StreamId, GraphId] = field(default_factory=dict)
    """Graphs that were there before the capture which adds to them (``cudaStreamBeginCaptureToGraph``)."""
    ended: dict[StreamId, Recording] = field(default_factory=dict)
    """The last capture of each stream that began one."""
    _open: dict[StreamId, Recording] = field(default_factory=dict)
    _streams: dict[StreamId, Recording] = field(default_factory=dict)
    _events: dict[EventId, Recording] = field(default_factory=dict)

    def ending(self, stream: StreamId) -> Recording | None:
        """The capture that an end on ``stream`` ends: on another stream than the begin the one begun last."""
        return self._open[self._begun_on(stream)] if self._open else None

    def _begun_on(self, stream: StreamId) -> StreamId:
        return stream if stream in self._open else next(reversed(self._open))

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

    def has_backward(self, stream: StreamId, number: int) -> None:
        """The captured op ``number`` computes gradients."""
        if stream in self._streams:
            self._streams[stream].backwards.add(number)

    def with_backward(self, number: int) -> Recording | None:
        """The capture, running or the last of its stream, that has taken up such an op."""
        known = (*self._streams.values(), *self.ended.values())
        return next((recording for recording in known if number in recording.backwards), None)

    def begins(self, stream: StreamId, pool: Value | None, stood: tuple[tuple[str, object], ...]) -> None:
        """What the capture that ``stream`` has just begun has: its memory pool, and what stood where."""
        self._streams[stream].pool = pool
        self._streams[stream].stood = stood

    def recorded(self, op: Op) -> tuple[Op, ...]:
        """What ``op`` leaves in the trace, and what it means to the captures."""
        match op:
            case BeginCapture(stream=stream):
                self.begun = True
                self._open[stream] = self._streams[stream] = Recording()
            case EndCapture(stream=stream):
                if self._open:
                    self.ended[stream] = ended = self._open.pop(self._begun_on(stream))
                    op = replace(op, writes=ended.writes(), swapped=ended.carried(op.swapped))
                if not self._open:
                    self._streams.clear()
                    self._events.clear()
            case _ if not self.active:
                pass
            case Record(event=event, stream=on) | Wait(event=event, stream=on) if (
                event in self.external and self.has(on)
            ):
                self.add_node(op)
                return ()
            case Record(stream=stream, event=event):
                if self.has(stream):
                    self._events[event] = self._streams[stream]
                else:
                    self._events.pop(event, None)
            case Wait(stream=stream, event=event) if event in self._events:
                self._streams[stream] = self._events[event]
            case Wait(stream=stream) if stream in self._streams:
                self._streams[stream].lost = True
            case Launch() | Copy():
                return self._captured(op)
            case _:
                pass
        return (op,)

    def add_node(self, op: Record | Wait) -> None:
        """An external event becomes a node of the capture: each launch records it, or waits for it."""
        recording = self._streams[op.stream]
        (recording.waits if isinstance(op, Wait) else recording.records).append(op.event)

    def _captured(self, op: Launch | Copy) -> tuple[Op, ...]:
        if op.stream not in self._streams:
            # It runs now, and at no launch of the graph.
            return (op,)
        self._streams[op.stream].add(op)
        node = Launch(op.at, op.lane, op.doubts, stream=op.stream, accesses=(), name=op.name)
        if isinstance(op, Copy) and op.host is HostEffect.BLOCKS and self.has(op.stream):
            # x.cpu() still waits for its stream, which a capture forbids.
            return (
                node,
                SyncStream(op.at, op.lane, op.doubts, stream=op.stream, name=op.name, purpose=Purpose.ASIDE),
            )
        return (node,)
