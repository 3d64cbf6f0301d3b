"""The state of one path: memory, streams, and the ops issued so far."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn

from streamlint.frozen import replace
from streamlint.interp.state import bounded, selected, symbols
from streamlint.interp.state.budgets import LIMITS
from streamlint.interp.state.ends import Cut
from streamlint.interp.state.lives import in_pinned_pool
from streamlint.interp.state.path import Path
from streamlint.interp.state.values import (
    BufferV,
    EventV,
    Flavor,
    GraphV,
    HeapObject,
    HeapV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    each_of,
    symbol_of,
)
from streamlint.models import words
from streamlint.models.schema import Lib
from streamlint.trace import (
    CURRENT_DEVICE,
    MAIN_LANE,
    THREAD_DEVICE,
    WHOLE,
    Alloc,
    AllocKind,
    Buffer,
    BufferId,
    DeviceId,
    Event,
    EventId,
    Evidence,
    Graph,
    GraphId,
    Op,
    Origin,
    Passed,
    Site,
    Space,
    Stream,
    StreamId,
    StreamKind,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint import ir
    from streamlint.interp.state.decisions import Oracle
    from streamlint.interp.state.frames import Frame
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.python import Python
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.watch import Watch
    from streamlint.source import Span


@dataclass(slots=True, kw_only=True)
class Machine(Path):
    """A path that runs. Functions of this package take it as their first argument."""

    project: Project
    python: Python
    oracle: Oracle
    entry: str
    default_stream: StreamKind = StreamKind.LEGACY
    frames: list[Frame] = field(default_factory=list)
    imports: dict[int, HeapObject] | None = None
    """Where it only computes what modules do at import (``python/first_values.py``), the objects of the
    variables that it came by, as they were at first."""
    watch: Watch | None = None
    most_steps: int = LIMITS.path_steps
    most_ops: int = LIMITS.path_ops
    taken_over: int = 0
    """How many of its steps another path has done: it continues from a copy of what they left."""

    @property
    def done(self) -> int:
        """The steps that it has done itself."""
        return self.steps - self.taken_over

    # ------------------------------------------------------------------ budgets and places

    def tick(self) -> None:
        self.steps = steps = self.steps + 1
        if steps > self.most_steps or len(self.ops) > self.most_ops:
            self.stop("steps")
        if not steps & 4_095:
            self.project.budgets.look()

    def search(self) -> None:
        """A search walks over all that is held, and takes its share of the budget."""
        self.steps += 10 + len(self.heap) // 10

    def stop(self, budget: str) -> NoReturn:
        self.cut.append(budget)
        raise Cut(budget)

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @contextmanager
    def back_in(self, frame: Frame, depth: int) -> Iterator[None]:
        """The function that walks a generator goes on at a yield, ``depth`` calls deep.

        ``for batch in batches(): ...``: the body is not reached through the call that made the generator.
        """
        self.frames.append(frame)
        inside, self.calls[depth:] = self.calls[depth:], []
        try:
            yield
        finally:
            self.calls[depth:] = inside
            self.frames.pop()

    def asked_by_constructor(self) -> tuple[Symbol, ...]:
        """The open tests of a constructor since the running statement of a function began."""
        taken = self.oracle.taken[self.frame.asked :] if self.constructing else ()
        return tuple(decision.key for decision in taken)

    def turn(self, span: Span) -> int:
        """How often this call from outside has come by a place so far."""
        return self.turns.get((span, self.call), 0)

    def _take_turn(self, span: Span) -> int:
        turn = self.turn(span)
        self.turns[span, self.call] = turn + 1
        return turn

    def site(self, span: Span) -> Site:
        turn = self._take_turn(span)
        frame = self.frames[-1] if self.frames else None
        return Site(
            span=span,
            function=frame.function if frame else "",
            text="",
            calls=tuple(self.calls),
            turn=turn,
            call=self.call,
            quiet=self._innermost("quiet"),
            following=self._innermost("follows"),
        )

    def _innermost(self, kind: Literal["quiet", "follows"]) -> int:
        """How many of the functions that run, from the innermost on, name no stream, or order nothing."""
        count = 0
        for frame in reversed(self.frames):
            if frame.touches if kind == "quiet" else not frame.follows:
                break
            count += 1
        return min(count, len(self.calls))

    def emit(self, op: Op) -> int:
        self.ops.extend(self.captures.recorded(selected.doubted(op, self.device_symbol, self.selected_on)))
        if self.watch is not None:
            self.watch.issued(self, len(self.ops) - 1)
        return len(self.ops) - 1

    def forget_ops(self, first: int) -> None:
        """Takes back the ops from number ``first`` on, which belong to another time."""
        del self.ops[first:]
        self.life.read = min(self.life.read, first)
        if self.last_backward is not None and self.last_backward >= first:
            self.last_backward = None
        self.guesses = {key: guess for key, guess in self.guesses.items() if guess.op < first}

    # ------------------------------------------------------------------ streams and events

    def new_stream(
        self,
        kind: StreamKind,
        name: str,
        span: Span | None,
        lib: Lib | None,
        device: DeviceId | None = None,
        made_on: DeviceId | None = None,
        passed: Passed | None = None,
    ) -> StreamV:
        if span is not None and (before := self._made_before_waking(span)) is not None:
            return before
        number = StreamId(len(self.streams))
        where = device if device is not None else self.device
        made = Stream(number, kind, where, name, span, made_on, passed, call=self._call_of_maker())
        self.streams[number] = replace(made, words=words.of(lib)) if lib is not None else made
        if span is not None:
            self.made_by_lane.setdefault((self.lane, span), []).append(StreamV(number, lib))
        return StreamV(number, lib)

    def _made_before_waking(self, span: Span) -> StreamV | None:
        """A thread that is woken runs from its beginning: what it makes there, it had made when it began."""
        first = self.threads.get(self.lane)
        if first is None:
            return None
        again = self.made_by_lane.setdefault((self.lane, span), [])
        made = self.made_by_lane.get((first, span), [])
        if len(again) >= len(made):
            return None
        again.append(made[len(again)])
        return again[-1]

    def _call_of_maker(self) -> int | None:
        """The call in which an object makes something for itself; None for what a module may keep."""
        owner = self.frames[-1].receiver if self.frames else None
        return self.call if isinstance(owner, HeapV) and owner not in self.globals.values() else None

    def new_event(self, name: str, span: Span | None, lib: Lib | None, *, of_call: bool = False) -> EventV:
        number = EventId(len(self.events))
        made_by = self.frames[-1].function if self.frames else ""
        self.events[number] = Event(number, self.device, name, span, made_by, of_call=of_call, lane=self.lane)
        return EventV(number, lib)

    def event_of(self, call: str, span: Span | None, lib: Lib | None) -> EventV:
        """The event that a call makes for itself: one stream waits for what another has queued."""
        made = self.new_event(f"the event of {call}", span, lib)
        self.events[made.id] = replace(self.events[made.id], implied=True)
        return made

    def new_graph(self, span: Span | None, lib: Lib | None) -> GraphV:
        number = GraphId(len(self.graphs))
        self.graphs[number] = Graph(number, "the graph", span)
        return GraphV(number, lib)

    def default(self, kind: StreamKind, lib: Lib | None, device: DeviceId | None = None) -> StreamV:
        """The default stream of a device, made when first asked for."""
        where = device if device is not None else self.device
        found = self.defaults.get((kind, where))
        if found is None:
            name = words.of_default_stream(kind, where)
            found = self.defaults[kind, where] = self.new_stream(kind, name, None, lib, where)
            if kind is StreamKind.CURRENT and self._is_program:
                self.streams[found.id] = replace(self.streams[found.id], of_program=True)
        return StreamV(found.id, lib) if lib is not None else found

    @property
    def _is_program(self) -> bool:
        """Whether the body of a module runs: no caller has selected a stream."""
        return self.default_stream is StreamKind.LEGACY and self.entry == self.frames[0].env.module

    def current_stream(self, lib: Lib, device: DeviceId | None = None) -> StreamV:
        """The current stream of ``lib`` on this lane: what the caller chose, until code selects another.

        Most others have none: calls without a stream run on the default stream.
        """
        where = device if device is not None else self.device
        lib = Lib.TORCH if lib in words.ON_STREAMS_OF_TORCH else lib
        found = self.current.get((lib, where, self.lane))
        if found is not None:
            return found
        if lib is Lib.WARP:
            # Warp makes a blocking stream for each device (warp/native/warp.cu) and uses that.
            return self.own_stream(StreamKind.BLOCKING, "Warp's stream", None, lib, where)
        if lib in words.PER_THREAD:
            return self.default(StreamKind.PER_THREAD, lib, where)
        if lib not in words.CHOSEN_BY_CALLERS or self.lane != MAIN_LANE:
            return self.default(self.default_stream, lib, where)
        if where not in (CURRENT_DEVICE, THREAD_DEVICE) and not where.startswith("?"):
            return self.default(self.default_stream, lib, where)
        return self.default(StreamKind.CURRENT, lib, where)

    def is_aside(self, lib: Lib) -> bool:
        """Whether the current stream is one that code has selected, and not what the program began with."""
        return self.streams[self.current_stream(lib).id].kind not in (StreamKind.CURRENT, StreamKind.LEGACY)

    def own_stream(
        self, kind: StreamKind, name: str, span: Span | None, lib: Lib, device: DeviceId
    ) -> StreamV:
        """The one stream that a library makes for itself on a device, made when first asked for."""
        own = symbols.call(name, symbols.constant(device))
        if own not in self.roles:
            self.roles[own] = self.new_stream(kind, name, span, lib, device)
        made = self.roles[own]
        assert isinstance(made, StreamV)
        return made

    # ------------------------------------------------------------------ memory

    def new_buffer(
        self,
        name: str,
        space: Space,
        origin: Origin,
        flavor: Flavor,
        span: Span | None,
        alloc_stream: StreamId | None = None,
        device: DeviceId | None = None,
        *,
        by: str = "allocation",
        kind: AllocKind = AllocKind.CACHED,
    ) -> BufferV:
        number = BufferId(len(self.buffers))
        # What a thread gets from outside is where the program works, and not on the thread's device 0.
        outside = origin is Origin.ARGUMENT and self.device == THREAD_DEVICE
        where = device if device is not None else CURRENT_DEVICE if outside else self.device
        self.buffers[number] = Buffer(number, name, space, origin, where, alloc_stream, span)
        if space is Space.PINNED and origin is not Origin.ARGUMENT and flavor is Flavor.TORCH:
            self.buffers[number] = in_pinned_pool(self.buffers[number])
        self.life.flavors[number] = flavor
        if where == self.device and self.device_symbol is not None:
            self.made_for[symbols.Memory(number, WHOLE)] = self.device_symbol
        if self.captures.active:
            self.life.captured.add(number)
        if origin is not Origin.ARGUMENT and span is not None:
            self.emit(
                Alloc(self.site(span), self.lane, buffer=number, stream=alloc_stream, name=by, kind=kind)
            )
        return BufferV(number, WHOLE, flavor)

    def space(self, view: BufferV) -> Space:
        # What was page-locked for a while, the trace has as that: copies that began then are asynchronous.
        return Space.PAGEABLE if view.id in self.forms.unpinned else self.buffers[view.id].space

    def set_space(self, view: BufferV, space: Space) -> None:
        self.buffers[view.id] = replace(self.buffers[view.id], space=space)

    def is_memory(self, view: BufferV, kind: Evidence) -> BufferV:
        """Notes what shows that a value is memory at all; what was known better stays."""
        known = self.buffers[view.id]
        if kind > known.kind:
            self.buffers[view.id] = replace(known, kind=kind)
        return view

    def lives(self, view: BufferV, space: Space, residence: Evidence) -> BufferV:
        """Notes where memory is, and how that is known; what was known better stays."""
        known = self.buffers[view.id]
        # self.page = torch.empty(n, pin_memory=flag): pinned or not, it is on the host.
        if residence > known.residence or (space.on_host and known.space is Space.UNKNOWN):
            self.buffers[view.id] = replace(known, space=space, residence=residence)
        return view

    def no_surer(self, made: BufferV, limit: Evidence) -> BufferV:
        """What is made by work that is itself only known like that."""
        known = self.buffers[made.id]
        kind, residence = min(known.kind, limit), min(known.residence, limit)
        self.buffers[made.id] = replace(known, kind=kind, residence=residence)
        return made

    def no_surer_place(self, made: BufferV, limit: Evidence) -> BufferV:
        """What was put where a value says that is only known like that."""
        known = self.buffers[made.id]
        self.buffers[made.id] = replace(known, residence=min(known.residence, limit))
        return made

    def is_host_array(self, view: BufferV) -> None:
        """An argument that turned out to be a numpy array: no stream writes it."""
        if self.buffers[view.id].space is Space.UNKNOWN:
            self.set_space(view, Space.PAGEABLE)
            self.is_not_pending(view)

    def is_not_pending(self, view: BufferV) -> None:
        """No caller has queued work on it: an array of numpy, wherever its memory comes from."""
        for accesses in self.pending.values():
            accesses[:] = [access for access in accesses if access.buffer != view.id]

    def new_object(
        self, shape: Shape, *, cls: ir.ClassDecl | None = None, symbol: Symbol | None = None, role: str = ""
    ) -> HeapV:
        number = len(self.heap)
        self.heap[number] = HeapObject(shape, cls, symbol=symbol, role=role)
        return HeapV(number)

    def symbol_of_object(self, value: HeapV) -> Symbol:
        """What unseen code would call an object; what is only known by what it is for has that for a name."""
        held = self.heap[value.id]
        return held.symbol or (symbols.Name(held.role) if held.role else symbol_of(value))

    def new_list(self, items: Iterable[Value], *, shape: Shape = Shape.LIST, kind: str = "") -> HeapV:
        made = HeapV(len(self.heap))
        self.heap[made.id] = HeapObject(shape, kind=kind)
        self.fill(made, items)
        return made

    def fill(self, made: HeapV, items: Iterable[Value]) -> None:
        """Adds to a list; past the limit there are more elements than those listed."""
        held = self.heap[made.id]
        added, rest = bounded.fill(held, items)
        # Adding many is work like evaluating a few expressions.
        self.steps += added // 16
        if rest:
            self.project.budgets.left_out.add("elements of a list")
            held.open, held.sample = True, held.sample or each_of(made)

    def new_tuple(self, items: Iterable[Value]) -> Value:
        """A tuple; one too large is a value of which only streams and the like are kept."""
        made = bounded.tuple_of(items)
        if not isinstance(made, TupleV):
            self.project.budgets.left_out.add("elements of a tuple")
        return made

    def fresh(self, what: str, span: Span | None = None, holds: tuple[Value, ...] = ()) -> SymV:
        """An unknown value that equals no other."""
        return SymV(self.unlike_any(symbols.Name(what), span), self._kept_of(holds))

    def _kept_of(self, holds: tuple[Value, ...]) -> tuple[Value, ...]:
        fits = self.project.budgets.allows(bounded.MOST_HELD, len(holds))
        return holds if fits else holds[: bounded.MOST_HELD.number]

    def result(self, function: str | Symbol, span: Span | None = None, holds: tuple[Value, ...] = ()) -> SymV:
        """What a call of an unseen function gives: each time something else."""
        called = symbols.Name(function) if isinstance(function, str) else function
        return SymV(self.unlike_any(symbols.Call(called, ()), span), self._kept_of(holds))

    def unlike_any(self, what: Symbol, span: Span | None) -> Symbol:
        path, line, col = (span.path, span.line, span.col) if span is not None else ("", 0, 0)
        turn = self._take_turn(span) if span is not None else 0
        return symbols.Fresh(what, path, line, col, turn, self.call, len(self.calls))

    def set_global(self, owner: str, name: str, value: Value) -> None:
        """Assigns to a variable of a module or a class."""
        self.replaced.setdefault((owner, name), self.globals.get((owner, name)))
        self.globals[owner, name] = value
