"""Random traces for property tests: a few streams of all kinds, events, buffers, lanes and doubts."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import strategies as st

from streamlint.trace import (
    MAIN_LANE,
    Access,
    BufferId,
    Doubt,
    GraphId,
    HostEffect,
    Interval,
    LaneId,
    Mode,
    MonitorKind,
    Region,
    Space,
    StreamId,
    StreamKind,
    Symbol,
    Trace,
)
from tests.traces import SURE, Doubts, Program

_T = TypeVar("_T")

REGIONS: tuple[Region, ...] = ((), (Interval(0, 2),), (Interval(1, 4),), (Interval(0, 8),), (Symbol("i"),))
KINDS = (
    "launch launch launch copy copy host host record record wait wait sync_event sync_stream sync_device "
    "barrier alloc free destroy callback callback_end spawn join replay host_wait host_signal"
).split()


@st.composite
def traces(draw: st.DrawFn, *, lanes: bool = True, most: int = 40) -> Trace:
    """Traces of up to ``most`` ops; with ``lanes`` also threads and callbacks, not always ended."""
    p = Program()
    for kind in draw(st.lists(st.sampled_from(StreamKind), min_size=2, max_size=5)):
        p.stream(kind, draw(st.sampled_from(("cur", "cur", "1"))), made_here=draw(st.booleans()))
    for _ in range(3):
        p.event()
        p.buffer(draw(st.sampled_from(Space)))
    for monitor in MonitorKind:
        p.monitor(monitor, reset=draw(st.booleans()), count=draw(st.integers(0, 2)))
    writer = _Writer(p, draw)
    writer.write("launch")
    kinds = [k for k in KINDS if lanes or k not in ("callback", "callback_end", "spawn", "join")]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=most)):
        writer.write(kind)
    return p.trace()


class _Writer:
    def __init__(self, p: Program, draw: st.DrawFn) -> None:
        self.p = p
        self.draw = draw
        self.lanes: list[LaneId] = [MAIN_LANE]
        self.threads: list[LaneId] = []
        self.bodies: list[tuple[StreamId, LaneId]] = []

    def write(self, kind: str) -> None:  # noqa: C901, PLR0912  one case an op
        p, lane = self.p, self._of(self.lanes)
        stream, event = self._of(list(p.streams)), self._of(list(p.events))
        match kind:
            case "launch":
                p.launch(stream, *self._accesses(), lane=lane, doubts=self._doubts(Doubt.OPAQUE))
            case "replay":
                p.launch(stream, *self._accesses(), lane=lane, graph=self._of([GraphId(0), GraphId(1)]))
            case "host_wait":
                p.host_wait(self._of(list(p.monitors)), lane)
            case "host_signal":
                p.host_signal(self._of(list(p.monitors)), lane)
            case "copy":
                host = self.draw(st.sampled_from(HostEffect))
                p.copy(stream, self._buffer(), self._buffer(), host, lane, self._doubts(Doubt.SOME_PATHS))
            case "host":
                p.host(*self._accesses(), lane=lane)
            case "record":
                p.record(stream, event, lane, self._doubts(Doubt.SOME_PATHS))
            case "wait":
                p.wait(stream, event, lane, self._doubts(Doubt.ESCAPE))
            case "sync_event":
                p.sync_event(event, lane, self._doubts(Doubt.SOME_PATHS))
            case "sync_stream":
                p.sync_stream(stream, lane, self._doubts(Doubt.SOME_PATHS))
            case "sync_device":
                p.sync_device(self._of(["cur", "1"]), lane, self._doubts(Doubt.SOME_PATHS))
            case "barrier":
                p.barrier({stream, self._of(list(p.streams))}, lane=lane)
            case "alloc":
                p.alloc(self._buffer(), self._of([stream, None]), lane)
            case "free":
                p.free(self._buffer(), self._of([stream, None]), lane)
            case "destroy":
                p.destroy_event(event, lane)
            case _:
                self._lane_op(kind, lane, stream)

    def _lane_op(self, kind: str, lane: LaneId, stream: StreamId) -> None:
        p = self.p
        match kind:
            case "callback":
                body = p.new_lane()
                p.callback(stream, body, lane)
                self.lanes.append(body)
                self.bodies.append((stream, body))
            case "callback_end" if self.bodies:
                where, body = self.bodies.pop()
                p.callback_end(where, body)
                if self.draw(st.booleans()):
                    self.lanes.remove(body)
            case "spawn":
                child = p.new_lane()
                p.spawn(child, lane)
                self.lanes.append(child)
                self.threads.append(child)
            case "join" if self.threads:
                p.join(self._of(self.threads), MAIN_LANE)

    def _of(self, items: list[_T]) -> _T:
        return self.draw(st.sampled_from(items))

    def _buffer(self) -> BufferId:
        return self._of(list(self.p.buffers))

    def _accesses(self) -> tuple[Access, ...]:
        return tuple(
            Access(self._buffer(), self._of(list(Mode)), self._of(list(REGIONS)), self._doubts(Doubt.OPAQUE))
            for _ in range(self.draw(st.integers(1, 2)))
        )

    def _doubts(self, doubt: Doubt) -> Doubts:
        return frozenset({doubt}) if self.draw(st.integers(0, 5)) == 0 else SURE
