"""The running program as events: which streams, events and blocks there are, and what was done with them.

All threads of the program count as one host thread, in the order in which the interpreter ran them.
"""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamlint.confirm.observe.addresses import Addresses
from streamlint.confirm.observe.compact import compact, mentioned
from streamlint.confirm.observe.events import (
    Block,
    Body,
    Entry,
    Half,
    HostTouch,
    Keep,
    Move,
    Place,
    Places,
    Point,
    Touch,
    Touched,
    Work,
)
from streamlint.confirm.observe.registry import EventInfo, Registry, StreamInfo, key_of
from streamlint.frozen import replace
from streamlint.source import Span
from streamlint.trace import (
    AllocKind,
    BeginCapture,
    BufferId,
    Callback,
    CallbackEnd,
    CaptureMode,
    CudaCall,
    DestroyEvent,
    DestroyStream,
    DeviceId,
    Doubt,
    EndCapture,
    EventId,
    FreeKind,
    LaneId,
    Op,
    Purpose,
    Record,
    Site,
    Space,
    StreamId,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamlint.confirm.observe.registry import StreamKinds
    from streamlint.trace import HostEffect

HALF_WINDOW = 16_384
"""Events in half a window. Two operations closer than this are always compared."""

_PERHAPS = frozenset({Doubt.THREADS})

_ANYWHERE = Site(Span("", 0, 0, 0, 0))
"""Replaced when the event is translated."""


@dataclass(slots=True)
class Window:
    """Two halves of the event stream, and what was known where the first one begins.

    What is known before holds the records that events held, the blocks that were kept back, and the captures
    that were open: without them a wait in the window would seem to wait for nothing.
    """

    halves: tuple[Half, Half]
    streams: dict[StreamId, StreamInfo]
    events: dict[EventId, EventInfo]
    escapes: bool = False
    """A library that is not traced may order work, or a kernel that waits for a value in memory."""


class Recorder(Registry):
    """What the tracers call. Handles are those of the CUDA driver; addresses are in bytes."""

    def __init__(
        self,
        where: Callable[[], Place],
        callers: Callable[[], Places],
        kind_of: StreamKinds,
        judge: Callable[[Window], None],
        half: int = HALF_WINDOW,
    ) -> None:
        super().__init__(callers, kind_of)
        self.where = where
        self._addresses = Addresses()
        self.blocks = self._addresses.blocks
        """Live blocks by their first address."""
        self.find = self._addresses.find
        self.host_blocks = 0
        """So many have been told of that the host can reach."""
        self.count = 0
        """Events of halves that are complete."""
        self.escapes = False
        """Whether a kernel waited for a value in memory: what that orders is not followed."""
        self.stopped = False
        """Whether this is a child that does not go on for its parent."""
        self._judge = judge
        self._half = half
        self._judging = False
        self._old = Half()
        self._new = Half()
        self._last_block = 0
        self._last_lane = 0
        self._held: dict[EventId, Point] = {}
        self._kept: dict[BufferId, list[Keep]] = {}
        self._captures: dict[StreamId, Point] = {}
        self.recorded: set[EventId] = set()

    # ------------------------------------------------------------------ what is gone

    def destroy_stream(self, handle: int, device: DeviceId) -> None:
        self._gone.add(key_of(handle, device))
        self._point(DestroyStream(_ANYWHERE, stream=self.stream(handle, device)))

    def forget_event(self, handle: int) -> None:
        """The library destroyed an event that nothing can use any more."""
        info = self._events.pop(handle, None)
        if info is not None:
            self._held.pop(info.id, None)

    def destroy_event(self, handle: int) -> None:
        """One of a library, of which nobody told that it was made, may be another one at this handle next."""
        info = self._events.get(handle)
        if info is not None:
            self._point(DestroyEvent(_ANYWHERE, event=info.id))
            self._held.pop(info.id, None)

    # ------------------------------------------------------------------ memory

    def born(
        self,
        start: int,
        size: int,
        space: Space,
        device: DeviceId,
        stream: StreamId | None = None,
        *,
        name: str = "allocation",
        place: Place = None,
    ) -> Block:
        """``place``, where it is known already."""
        self._last_block += 1
        if space is not Space.DEVICE:
            self.host_blocks += 1
        block = Block(
            BufferId(self._last_block), start, size, space, device, stream, place or self.where(), name
        )
        self._addresses.enter(block)
        new = self._new
        new.lives.append((len(new.entries), block, True))
        return block

    def refused_allocation(self, space: Space, device: DeviceId, name: str) -> None:
        """An allocation that failed: a birth without memory."""
        self._last_block += 1
        block = Block(BufferId(self._last_block), 0, 0, space, device, None, self.where(), name, alive=False)
        block.kind = AllocKind.CALL
        self._new.lives.append((len(self._new.entries), block, True))

    def unseen(self, start: int, size: int, space: Space, device: DeviceId) -> Block:
        """A block whose allocation was not seen."""
        self._last_block += 1
        if space is not Space.DEVICE:
            self.host_blocks += 1
        block = Block(BufferId(self._last_block), start, size, space, device, None, None)
        self._addresses.enter(block)
        return block

    def pageable(self, start: int, size: int) -> Block:
        """Ordinary host memory in a copy: nobody knows when it is freed, so it is another block each time."""
        self._last_block += 1
        return Block(BufferId(self._last_block), start, size, Space.PAGEABLE, "cpu", None, None, alive=False)

    def died(
        self,
        start: int,
        kind: FreeKind = FreeKind.EXPLICIT,
        stream: StreamId | None = None,
        name: str = "free",
        *,
        place: Place = None,
    ) -> None:
        block = self.blocks.pop(start, None)
        if block is None:
            return
        block.alive = False
        if self._kept:
            self._kept.pop(block.id, None)
        block.death = place or self.where(), kind, stream, name
        block.by_call = kind is FreeKind.EXPLICIT
        new = self._new
        new.lives.append((len(new.entries), block, False))

    def forget_block(self, block: Block) -> None:
        """The block went back to an allocator that keeps it from being handed out too early."""
        self._addresses.forget(block)

    def keep(self, block: Block, stream: StreamId) -> None:
        entry = Keep(self.where(), block, stream)
        self._add(entry)
        self._kept.setdefault(block.id, []).append(entry)

    # ------------------------------------------------------------------ work

    def work(self, stream: StreamId, name: str, touches: list[Touched]) -> Work:
        """Device work. The list may still grow until the next call."""
        entry = Work(self.where(), stream, name, touches)
        self._add(entry)
        return entry

    def move(
        self,
        stream: StreamId,
        name: str,
        source: Touch | None,
        target: Touch | None,
        effect: HostEffect,
        library: str = "",
    ) -> Move:
        entry = Move(self.where(), stream, name, source, target, effect, library)
        self._add(entry)
        return entry

    def host(self, name: str, touches: Iterable[Touched]) -> None:
        self._add(HostTouch(self.where(), name, list(touches)))

    # ------------------------------------------------------------------ order

    def record(self, event: EventId, stream: StreamId) -> None:
        if self._is_node(event):
            return
        self.recorded.add(event)
        self._held[event] = self._point(Record(_ANYWHERE, stream=stream, event=event))

    def wait(self, stream: StreamId, event: EventId, name: str = "wait") -> None:
        if not self._is_node(event):
            self._point(Wait(_ANYWHERE, stream=stream, event=event, name=name))

    def _is_node(self, event: EventId) -> bool:
        return bool(self._captures) and self._event_infos[event].external

    def order(self, earlier: StreamId, later: StreamId, device: DeviceId, name: str) -> None:
        """A record and a wait that the library makes by itself."""
        event = self._new_event(device, (), None, name).id
        self.record(event, earlier)
        self.wait(later, event, name)
        self._held.pop(event, None)

    def sync_stream(
        self, stream: StreamId, name: str = "synchronize", purpose: Purpose = Purpose.ORDER
    ) -> None:
        """The host waited for a stream, or got the answer that it is idle."""
        op = SyncStream(_ANYWHERE, stream=stream, name=name, purpose=purpose)
        self._point(op, answer=purpose is Purpose.ANSWER)

    def sync_event(self, event: EventId, name: str = "synchronize", purpose: Purpose = Purpose.ORDER) -> None:
        """The host waited for an event, or got the answer that it is complete."""
        op = SyncEvent(_ANYWHERE, event=event, name=name, purpose=purpose)
        self._point(op, answer=purpose is Purpose.ANSWER)

    def sync_device(
        self,
        device: DeviceId,
        name: str = "synchronize",
        purpose: Purpose = Purpose.ORDER,
        doubts: frozenset[Doubt] = frozenset(),
    ) -> None:
        self._point(SyncDevice(_ANYWHERE, doubts=doubts, device=device, name=name, purpose=purpose))

    def call(
        self,
        name: str,
        *,
        stream: StreamId | None = None,
        event: EventId | None = None,
        times: tuple[EventId, ...] = (),
        lane: LaneId | None = None,
    ) -> None:
        """A call that orders nothing; ``lane`` is the callback that made it."""
        op = CudaCall(_ANYWHERE, name=name, stream=stream, event=event, times=times)
        self._point(op if lane is None else replace(op, lane=lane))

    def callback(self, stream: StreamId, name: str) -> Body:
        """A host function was queued; what it does itself is told later."""
        self._last_lane += 1
        body = Body(LaneId(self._last_lane), None)
        self._point(Callback(_ANYWHERE, stream=stream, body=body.lane, name=name))
        self._add(body)
        self._point(CallbackEnd(_ANYWHERE, stream=stream, body=body.lane))
        if not self.capturing:
            body.queued = self._new_event(self._stream_infos[stream].device, (), None, name).id
            self.record(body.queued, stream)
        return body

    def began(self, body: Body) -> None:
        """A host function may have told the host from now on that what was queued before it is done."""
        if body.queued is not None:
            self._point(SyncEvent(_ANYWHERE, doubts=_PERHAPS, event=body.queued, name="a host function"))
            self._held.pop(body.queued, None)

    def orders_unseen(self) -> None:
        self.escapes = True

    @property
    def capturing(self) -> bool:
        return bool(self._captures)

    def begin_capture(self, stream: StreamId, mode: CaptureMode = CaptureMode.GLOBAL) -> None:
        self._captures[stream] = self._point(BeginCapture(_ANYWHERE, stream=stream, mode=mode))

    def end_capture(self, stream: StreamId, *, failed: bool = False) -> None:
        """A capture ended; ``failed`` says that an exception left it, so that joins are missing."""
        self._captures.pop(stream, None)
        doubts = frozenset({Doubt.SOME_PATHS}) if failed else frozenset()
        self._point(EndCapture(_ANYWHERE, doubts=doubts, stream=stream))

    def _point(self, op: Op, *, answer: bool = False) -> Point:
        point = Point(self.where(), op, answer)
        self._add(point)
        return point

    def _add(self, entry: Entry) -> None:
        # Births and deaths do not come here: they are told from inside of allocators.
        new = self._new
        if len(new.entries) + len(new.lives) >= self._half:
            self.turn()
            new = self._new
        new.entries.append(entry)

    # ------------------------------------------------------------------ windows

    def turn(self) -> None:
        """Have the last two halves judged, and start a new one."""
        if self._judging:
            # A library may free memory from another thread meanwhile.
            return
        self._judging = True
        # All that judging makes is gone when it ends; to look for garbage in between takes longer than that.
        collecting = gc.isenabled()
        gc.disable()
        try:
            old, new = self._old, self._new
            self._old = new
            self._new = Half(self._now())
            self.count += len(new.entries) + len(new.lives)
            self._judge(Window((old, new), self._stream_infos, self._event_infos))
            self._old = compact(new)
            halves = self._old, self._new
            kept = (entry for half in halves for entry in (*half.before, *half.entries))
            alive = {info.id for info in self._events.values()} | mentioned(kept)
            for event in [event for event in self._event_infos if event not in alive]:
                del self._event_infos[event]
        finally:
            self._judging = False
            if collecting:
                gc.enable()

    def forked(self) -> None:
        """In a child: one that is forked before anything was queued is a program of its own.

        Another one cannot use CUDA. It does not go on for its parent, and judges nothing.
        """
        if self.count or self._new.entries or self._new.lives or self._old.entries:
            self.stopped = self._judging = True
            self._half = sys.maxsize

    def forget(self) -> None:
        """Leave out all that happened so far; streams, events and blocks stay known."""
        self.escapes = False
        self._old, self._new = Half(), Half(self._now())

    def _now(self) -> tuple[Point | Keep, ...]:
        kept = (entry for entries in self._kept.values() for entry in entries)
        return (*self._captures.values(), *self._held.values(), *kept)
