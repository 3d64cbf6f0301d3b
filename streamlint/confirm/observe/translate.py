"""Makes a trace of a window of events.

What cannot matter is left out, and leaving it out changes no verdict:

* Accesses to a block that, within the window, only one stream uses, its owner: a stream is in order
  with itself. Work that has no other accesses stays as a bare launch, because it may be a barrier
  among blocking streams; several in a row are one.
* Births and deaths that do not matter: see ``lives``.
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

from typing_extensions import assert_never

from streamlint.confirm.observe.events import (
    Block,
    Body,
    Entry,
    HostTouch,
    Keep,
    Move,
    Place,
    Point,
    Touch,
    Work,
)
from streamlint.confirm.observe.lives import Lives, freed
from streamlint.frozen import replace
from streamlint.interp.state.captures import Captures
from streamlint.source import Span
from streamlint.trace import (
    Access,
    Alloc,
    Buffer,
    BufferId,
    Copy,
    CudaCall,
    Doubt,
    Event,
    EventId,
    Free,
    HostAccess,
    Interval,
    KeepAlive,
    Launch,
    Op,
    Origin,
    Provenance,
    Region,
    Site,
    Space,
    Stream,
    StreamId,
    StreamKind,
    Symbol,
    SymbolSlice,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.confirm.observe.recorder import Window
    from streamlint.confirm.observe.registry import StreamInfo
    from streamlint.confirm.observe.sites import Located, Sources

_NONE: frozenset[Doubt] = frozenset()
_ESCAPE = frozenset({Doubt.ESCAPE})
_OPAQUE = frozenset({Doubt.OPAQUE})
_START = Site(Span("", 0, 0, 0, 0))
_BLOCK = itemgetter(0)
"""That of a touch."""


def trace_of(window: Window, sources: Sources) -> Trace | None:
    """The trace of a window, or None if nothing in it can be out of order."""
    entries = [entry for half in window.halves for entry in half.entries]
    shared = _shared(entries) | freed(window.halves)
    if not shared and not any(isinstance(entry, Point | Keep) for entry in entries):
        return None
    return _Translation(window, sources, shared).trace()


def _shared(entries: Iterable[Entry]) -> set[Block]:
    """Blocks that more than one agent uses: two streams, a stream that is not the owner, or the host."""
    shared: set[Block] = set()
    for entry in entries:
        if type(entry) is Work:  # nearly all are; a pattern takes three times as long
            stream = entry.stream
            for touch in entry.touches:
                block = touch[0]
                user = block.user
                if user != stream:
                    if user is None:
                        user = block.user = stream if block.stream is None else block.stream
                    if user != stream:
                        shared.add(block)
            continue
        match entry:
            case Move(stream=stream, source=source, target=target):
                # `model.to("cuda")` copies each parameter once: its end on the device is that stream's.
                ends = [touch.block for touch in (source, target) if touch is not None]
                shared.update(block for block in ends if _is_met(block, stream))
            case HostTouch(touches=touches):
                shared |= {touch[0] for touch in touches}
            case Body(touches=parts):
                shared |= {touch[0] for part in parts for touch in part.touches}
            case Keep(block=block):
                shared.add(block)
            case _:
                pass
    return shared


def _is_met(block: Block, stream: StreamId) -> bool:
    """Whether somebody else may use what a copy of this stream uses: the host does where it can."""
    if block.user is None:
        block.user = stream if block.stream is None else block.stream
    return block.space is not Space.DEVICE or block.user != stream


class _Translation:
    def __init__(self, window: Window, sources: Sources, shared: set[Block]) -> None:
        self._window = window
        self._sources = sources
        self._shared = shared
        self._lives = Lives(window.halves, shared)
        shared.update(self._lives.before.values())
        self._foreign = {info.id for info in window.streams.values() if info.foreign}
        self._everywhere = _ESCAPE if window.escapes else _NONE
        self._ops: list[Op] = [CudaCall(_START, name="start of the observation")]
        self._captures = Captures()
        self._turns: Counter[tuple[int, int]] = Counter()
        self._blocks: dict[BufferId, Block] = {}
        self._names: dict[BufferId, Counter[str]] = {}
        self._last_work: StreamId | None = None

    def trace(self) -> Trace:
        for held in self._window.halves[0].before:
            self._add(held)
        for half in self._window.halves:
            done = 0
            for at, block, born in self._lives.of(half):
                self._add_all(half.entries[done:at])
                done = at
                if born:
                    self._born(block)
                else:
                    self._died(block)
            self._add_all(half.entries[done:])
        return Trace(
            ops=tuple(self._ops),
            streams={info.id: self._stream(info) for info in self._window.streams.values()},
            events=self._events(),
            buffers={id_: self._buffer(block) for id_, block in self._blocks.items()},
            entry="observed",
            provenance=Provenance.OBSERVED,
        )

    def _add_all(self, entries: Iterable[Entry]) -> None:
        """Most are nothing: work on memory of one stream, behind other work there.

        One loop without calls of Python functions, since it runs for each operation of the program.
        """
        are_own = self._shared.isdisjoint
        for entry in entries:
            if (
                type(entry) is Work
                and entry.stream == self._last_work
                and are_own(map(_BLOCK, entry.touches))
            ):
                continue
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        match entry:
            case Work():
                self._work(entry)
            case Move(source=source, target=target):
                if source is not None and target is not None:
                    self._move(entry, source, target)
            case HostTouch():
                self._emit(self._by_host(entry))
            case Body(lane=lane, touches=parts):
                for part in parts:
                    self._emit(replace(self._by_host(part), lane=lane))
            case Keep(block=block, stream=stream):
                self._blocks[block.id] = block
                self._emit(KeepAlive(self._site(entry.place), buffer=block.id, stream=stream))
            case Point(place=place, answer=True) if self._sources.locate(place).ignored:
                pass
            case Point(place=place, op=op):
                self._emit(replace(op, at=self._site(place)))
                self._last_work = None
            case _:
                assert_never(entry)

    def _emit(self, op: Op) -> None:
        self._ops += self._captures.recorded(op)

    def _by_host(self, entry: HostTouch) -> HostAccess:
        located = self._sources.locate(entry.place)
        accesses = tuple(self._access(Touch(*touch), located) for touch in entry.touches)
        return HostAccess(self._site(entry.place), accesses=accesses, name=entry.name)

    def _work(self, entry: Work) -> None:
        touches = [Touch(*touch) for touch in entry.touches if touch[0] in self._shared]
        located = self._sources.locate(entry.place)
        accesses = tuple(self._access(touch, located) for touch in touches)
        site = self._site(entry.place)
        # A kernel may only read what it is given: of two such accesses nobody knows that one writes.
        opaque = tuple(access for access in accesses if Doubt.OPAQUE in access.doubts)
        known = tuple(access for access in accesses if Doubt.OPAQUE not in access.doubts)
        for some, own in ((known, _NONE), (opaque, _OPAQUE)):
            if some or (not accesses and not own):
                doubts = own | self._doubts(entry.stream)
                self._emit(
                    Launch(
                        site,
                        doubts=doubts,
                        stream=entry.stream,
                        accesses=some,
                        name=entry.name,
                        completes=entry.completes,
                    )
                )
        self._last_work = entry.stream

    def _move(self, entry: Move, source: Touch, target: Touch) -> None:
        located = self._sources.locate(entry.place)
        self._emit(
            Copy(
                self._site(entry.place),
                doubts=self._doubts(entry.stream),
                stream=entry.stream,
                src=self._access(source, located),
                dst=self._access(target, located),
                host=entry.effect,
                library=entry.library,
                name=entry.name,
            )
        )
        self._last_work = entry.stream

    def _doubts(self, stream: StreamId) -> frozenset[Doubt]:
        """Code that is not traced may order what it has: a stream, or all of them."""
        return _ESCAPE if stream in self._foreign else self._everywhere

    def _born(self, block: Block) -> None:
        # What no stream orders matters in a capture, where it may be refused.
        told = block.stream is not None or self._captures.active
        if not told and block not in self._shared and block not in self._lives.births:
            return
        self._blocks[block.id] = block
        before = self._lives.before.get(block)
        reuses = None if before is None else before.id
        site = self._site(block.place)
        self._emit(
            Alloc(site, buffer=block.id, stream=block.stream, name=block.name, kind=block.kind, reuses=reuses)
        )

    def _died(self, block: Block) -> None:
        if block.death is None:
            return
        place, kind, stream, name = block.death
        self._blocks[block.id] = block
        self._emit(Free(self._site(place), buffer=block.id, stream=stream, kind=kind, name=name))

    def _access(self, touch: Touch, located: Located) -> Access:
        block = touch.block
        if block.id not in self._blocks:
            self._blocks[block.id] = block
        name = located.operand(touch.operand) if touch.operand >= 0 else located.assigned
        if name:
            self._names.setdefault(block.id, Counter())[name] += 1
        return Access(block.id, touch.mode, region(touch), touch.doubts)

    def _site(self, place: Place) -> Site:
        located = self._sources.locate(place)
        key = (id(place[0]), place[1]) if place is not None else (0, 0)
        turn = self._turns[key]
        self._turns[key] += 1
        return Site(located.span, located.function, turn=turn)

    # What there is

    def _stream(self, info: StreamInfo) -> Stream:
        match info.kind:
            case StreamKind.LEGACY:
                name = "the default stream"
            case StreamKind.PER_THREAD:
                name = "the per-thread default stream"
            case _:
                name = self._sources.name(info.places) or f"stream{info.id}"
        span = self._sources.locate(info.places[0]).span if info.places else None
        return Stream(info.id, info.kind, info.device, name, span)

    def _events(self) -> dict[EventId, Event]:
        events = {}
        for info in self._window.events.values():
            located = self._sources.locate(info.places[0] if info.places else None)
            name = self._sources.name(info.places) or f"event{info.id}"
            span = located.span if info.places else None
            made = Event(info.id, info.device, name, span, located.function, timing=info.timing)
            # One that a library made is not the user's to record later.
            of = info.of or ("" if info.places else "a library")
            events[info.id] = replace(made, name=f"the event of {of}", implied=True) if of else made
        return events

    def _buffer(self, block: Block) -> Buffer:
        located = self._sources.locate(block.place)
        # A block has many names; most of its uses say which one the reader knows.
        used = self._names.get(block.id)
        name = used.most_common(1)[0][0] if used else located.assigned or f"buffer{block.id}"
        return Buffer(
            block.id,
            name,
            block.space,
            Origin.ALLOCATED if block.place is not None else Origin.ARGUMENT,
            block.device,
            block.stream,
            located.span if block.place is not None else None,
            pool=block.pool,
            pool_awaits=block.pool_awaits,
        )


def region(touch: Touch) -> Region:
    """The bytes of an access; the empty region where they are all.

    Views that are not dense get the pitch and the columns as further axes: columns of one pitch can be
    compared, others may overlap.
    """
    if touch.strides is None:
        dense = touch.lo <= 0 and touch.hi >= touch.block.size > 0
        return () if dense else (Interval(touch.lo, touch.hi),)
    pitch, column, width = touch.strides
    return (
        Interval(touch.lo, touch.hi),
        SymbolSlice(Symbol(f"pitch {pitch}"), Symbol(f"end of {pitch}")),
        Interval(column, column + width),
    )
