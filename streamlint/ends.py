"""Which streams of a module its code forks and joins, over all its entries.

A stream that the module makes for itself is known to nobody else. So where some entry makes it wait for
other work and none ever waits for it, or the other way round, the missing half is missing for good:
no unseen caller can be meant to supply it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.rules.base import is_named
from streamlint.trace import (
    Barrier,
    EventId,
    Record,
    StreamId,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Trace,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.interp.entries import Run
    from streamlint.source import Span


EXPLICIT_WAITS = frozenset({"synchronize", "query", "sync", "cudaStreamSynchronize", "cudaEventQuery"})
"""Names of calls that wait on purpose, unlike those that fetch a value."""


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """What makes a finding as sure as any other: nobody supplies the order that it misses.

    ``returned``: the work of the stream is left to run after the call; else the stream begins too early.
    """

    stream: Span
    name: str
    owner: str
    """The class whose method works on the stream, if it is one."""
    returned: bool


@dataclass(slots=True)
class Ends:
    """Streams by the place where they are made."""

    forked: set[Span] = field(default_factory=set)
    """They wait for other work somewhere ..."""
    joined: set[Span] = field(default_factory=set)
    """... somebody waits for their work ..."""
    announced: set[Span] = field(default_factory=set)
    """... an event is recorded behind it ..."""
    escaped: set[Span] = field(default_factory=set)
    """... and unseen code, or a wait for the whole device, may do all of this."""

    def add(self, traces: Iterable[Trace]) -> None:
        for trace in traces:
            self._add(trace)

    def update(self, other: Ends) -> None:
        self.forked |= other.forked
        self.joined |= other.joined
        self.announced |= other.announced
        self.escaped |= other.escaped

    def _add(self, trace: Trace) -> None:
        records: dict[EventId, StreamId] = {}
        for op in trace.ops:
            match op:
                case Record():
                    records[op.event] = op.stream
                    if is_named(trace.events[op.event]):
                        self._note(self.announced, trace, op.stream)
                case Wait() if records.get(op.event) != op.stream:
                    self._note(self.forked, trace, op.stream)
                    self._note(self.joined, trace, records.get(op.event))
                case SyncEvent():
                    self._note(self.joined, trace, records.get(op.event))
                case SyncStream():
                    self._note(self.joined, trace, op.stream)
                case SyncDevice() if op.name in EXPLICIT_WAITS:
                    self._note(self.escaped, trace, *trace.streams)
                case Barrier():
                    self._note(self.escaped, trace, *op.streams)
                case _:
                    pass

    @staticmethod
    def _note(places: set[Span], trace: Trace, *streams: StreamId | None) -> None:
        places.update(
            span
            for stream in streams
            if stream is not None and (span := trace.streams[stream].span) is not None
        )

    def leave_open(self, end: OpenEnd) -> bool:
        """Whether one half of the order is there, and the other one nowhere."""
        if end.stream in self.escaped:
            return False
        if end.returned:
            return end.stream in self.forked and end.stream not in self.joined | self.announced
        return end.stream in self.joined and end.stream not in self.forked


@dataclass(slots=True)
class Facts:
    """What the entries of a module show together."""

    recorded: set[Span] = field(default_factory=set)
    """Where the events were made that some path records."""
    needed: set[Span] = field(default_factory=set)
    """Waits that order something on some path."""
    ends: Ends = field(default_factory=Ends)

    def add(self, run: Run) -> None:
        """Takes in an entry that was run, and judged if ``needed`` is to be known."""
        for trace in run.traces:
            for op in trace.ops:
                span = trace.events[op.event].span if isinstance(op, Record) else None
                if span is not None:
                    self.recorded.add(span)
        self.ends.add(run.traces)
        self.needed |= run.needed

    def update(self, other: Facts) -> None:
        self.recorded |= other.recorded
        self.needed |= other.needed
        self.ends.update(other.ends)
