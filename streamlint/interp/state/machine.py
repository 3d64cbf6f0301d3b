"""The state of one path: memory, streams, and the ops issued so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from streamlint.interp.state import arguments, bounded, naming, selected, spelling, symbols
from streamlint.interp.state.budgets import LIMITS
from streamlint.interp.state.captures import Captures, Recording
from streamlint.interp.state.ends import Cut
from streamlint.interp.state.forms import Forms
from streamlint.interp.state.frames import call_of_maker
from streamlint.interp.state.lifetime import Lifetimes, in_pinned_pool
from streamlint.interp.state.numbers import Numbers
from streamlint.interp.state.stored import Stores
from streamlint.interp.state.values import (
    NONE,
    Born,
    BufferV,
    Comparison,
    ContextV,
    DeviceV,
    Env,
    EventV,
    Flavor,
    FuncV,
    GraphV,
    HeapObject,
    HeapV,
    PartialV,
    Shape,
    StreamV,
    SymV,
    Value,
    symbol_of,
)
from streamlint.models import words
from streamlint.models.schema import Lib
from streamlint.trace import (
    CURRENT_DEVICE,
    MAIN_LANE,
    WHOLE,
    Access,
    Alloc,
    Buffer,
    BufferId,
    DeviceId,
    Doubt,
    Event,
    EventId,
    Evidence,
    Graph,
    GraphId,
    LaneId,
    Mode,
    Monitor,
    Op,
    Origin,
    Passed,
    Site,
    Space,
    Stream,
    StreamId,
    StreamKind,
    Trace,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from streamlint import ir
    from streamlint.interp.state.decisions import Oracle
    from streamlint.interp.state.frames import Driven, Frame
    from streamlint.interp.state.project import Project
    from streamlint.interp.state.put_off import Applied, Guess, Sleeper
    from streamlint.interp.state.python import Python
    from streamlint.interp.state.scope import Scope, Target
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.watch import Watch
    from streamlint.source import Span


@dataclass(slots=True)
class Machine:
    """Everything a path owns. Functions of this package take it as their first argument."""

    project: Project
    python: Python
    oracle: Oracle
    entry: str
    default_stream: StreamKind = StreamKind.LEGACY
    ops: list[Op] = field(default_factory=list)
    streams: dict[StreamId, Stream] = field(default_factory=dict)
    events: dict[EventId, Event] = field(default_factory=dict)
    buffers: dict[BufferId, Buffer] = field(default_factory=dict)
    heap: dict[int, HeapObject] = field(default_factory=dict)
    roles: dict[Symbol, Value] = field(default_factory=dict)
    """What a symbolic value turned out to be: a stream, an event, a buffer or an object."""
    globals: dict[tuple[str, str], Value] = field(default_factory=dict)
    remembered: dict[Symbol, Value] = field(default_factory=dict)
    """What functions gave that remember it: see ``python/caching.py``."""
    current: dict[tuple[Lib, DeviceId, LaneId], StreamV] = field(default_factory=dict)
    defaults: dict[tuple[StreamKind, DeviceId], StreamV] = field(default_factory=dict)
    device: DeviceId = CURRENT_DEVICE
    exact_device: DeviceId | None = CURRENT_DEVICE
    """The current device as the code says it: see ``DeviceV.exact``."""
    device_symbol: Symbol | None = None
    """What names it, where that is not known: see ``DeviceV.symbol``."""
    selected_on: dict[StreamId, Symbol | None] = field(default_factory=dict)
    """What named the device when CuPy's current stream was chosen: see ``interp/state/selected.py``."""
    pushed: list[DeviceV] = field(default_factory=list)
    """Devices whose contexts were pushed aside (``cuCtxPushCurrent``)."""
    lane: LaneId = MAIN_LANE
    frames: list[Frame] = field(default_factory=list)
    calls: list[Span] = field(default_factory=list)
    call: int = 0
    steps: int = 0
    activations: int = 0
    lanes: int = 1
    turns: dict[Span, int] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    pending: dict[int, list[Access]] = field(default_factory=dict)
    """Arguments that may still be written on the current stream when a call from outside starts, by the op
    that stands for what its caller did before."""
    before_call: dict[int, int] = field(default_factory=dict)
    """That op, by call number."""
    flat: set[BufferId] = field(default_factory=set)
    """Buffers known to have one axis: indexing a host view of them with an integer reads."""
    applied: list[Applied] = field(default_factory=list)
    """Functions of autograd that the next backward pass runs, the last one first."""
    made_in: dict[ir.ClassDecl, Env] = field(default_factory=dict)
    """The variables that classes inside of functions see: those of the last call that made each."""
    closures: dict[str, FuncV] = field(default_factory=dict)
    """Functions defined inside of others, by module and qualified name: see ``entries/closures.py``."""
    parameters: dict[Symbol, tuple[Scope, str]] = field(default_factory=dict)
    """What unseen callers pass: the function and the parameter."""
    plain: set[Symbol] = field(default_factory=set)
    """Unknown values that were passed where an annotation wants a number or the like."""
    objects: set[BufferId] = field(default_factory=set)
    """What was taken for a tensor and turned out to be a module: ``build().cuda().eval()``."""
    spread: set[Span] = field(default_factory=set)
    """Calls with keywords that are not all known: ``DataLoader(dataset, **options)``."""
    device_modules: set[Symbol] = field(default_factory=set)
    """Unknown values whose methods have shown that they are device modules, like ``torch.cuda``."""
    bound: dict[Symbol, dict[Symbol, Value]] = field(default_factory=dict)
    """Addresses that objects keep for their later work, by the object and by name."""
    addresses: dict[BufferId, tuple[Value, ...]] = field(default_factory=dict)
    """What host arrays were made of that hold addresses: ``np.array([int(pointer)], dtype=np.uint64)``."""
    assumed_device: bool = False
    """As in ``Trace``."""
    default_device: Value = NONE
    """Where PyTorch makes tensors that no device is named for, where the code has said so ..."""
    by_default: set[BufferId] = field(default_factory=set)
    """... and those it made where nothing was said: on the host, unless the caller chose another default."""
    sizes: dict[BufferId, Symbol] = field(default_factory=dict)
    """Sizes of allocations in bytes, as keys of the values given."""
    forms: Forms = field(default_factory=Forms)
    """Shapes, types and gaps of tensors."""
    given: dict[BufferId, Symbol] = field(default_factory=dict)
    """What memory from outside was, before it was used as memory."""
    made_of: dict[BufferId, BufferId] = field(default_factory=dict)
    """What was computed from one operand: what shows that one is a tensor shows it of the other."""
    makers: dict[Symbol, str] = field(default_factory=dict)
    """The path of the unseen function that gave a value."""
    last_backward: int | None = None
    last_return: Span | None = None
    life: Lifetimes = field(default_factory=Lifetimes)
    covered: set[str] = field(default_factory=set)
    """Qualified names of functions that were run."""
    constructed: set[int] = field(default_factory=set)
    """Objects, by their numbers on the heap, that the code that runs constructs by itself."""
    driven: set[Driven] = field(default_factory=set)
    """Methods called on these."""
    constructing: bool = False
    """Whether the object that the entry is about is being made; its branches are explored last."""
    did: object = None
    """What the path did, as ``runs.outline`` tells it."""
    whole: bool = False
    """Whether the path came to the end of its entry."""
    rebound: bool = False
    """Whether a ``nonlocal`` variable of a function that has returned was assigned."""
    loops: int = 0
    loops_end: int = 0
    """How many loops are open, and the step after which those of known length make no further pass."""
    endless: int = 0
    """How many of the loops are of unknown length."""
    filling: Born | None = None
    """What there was before the outermost loop of unknown length that is open ..."""
    filled: dict[int, Symbol] = field(default_factory=dict)
    """... and the dicts that it fills, with a key that a pass puts there."""
    stores: Stores = field(default_factory=Stores)
    guesses: dict[Symbol, Guess] = field(default_factory=dict)
    """Operators on unknown values, by their result: see ``interp/facts/guesses.py``."""
    captures: Captures = field(default_factory=Captures)
    entered: dict[ContextV, Callable[[], None]] = field(default_factory=dict)
    """What leaving a context does that was entered by hand."""
    stacks: dict[ContextV, list[Callable[[], object]]] = field(default_factory=dict)
    """What leaving an ``ExitStack`` that is open does."""
    handed: set[tuple[BufferId, str]] = field(default_factory=set)
    """Memory that was handed to a library without an order: see ``interp/library/handoffs.py``."""
    graphs: dict[GraphId, Graph] = field(default_factory=dict)
    recordings: dict[GraphId, Recording] = field(default_factory=dict)
    """What was captured into each graph; none for one that nothing was captured into, as far as was seen."""
    graphed: dict[GraphId, BufferV] = field(default_factory=dict)
    """The static output of graphs that are called like the function that was captured."""
    asleep: dict[int, list[Sleeper]] = field(default_factory=dict)
    """Threads that wait for what is put into a queue, by its number on the heap."""
    hooks: dict[tuple[str, Symbol], list[FuncV | PartialV]] = field(default_factory=dict)
    """Functions that PyTorch calls, by the method that took them and what it was called on."""
    saving: tuple[Value, Value] | None = None
    """Hooks of saved tensors of the block that runs ..."""
    saved: list[tuple[BufferId, Value, Value]] = field(default_factory=list)
    """... and what went through some: the memory, what gives it back, and what it was packed into."""
    monitors: dict[int, Monitor] = field(default_factory=dict)
    """Locks, flags and queues among the objects of the heap."""
    targets: dict[int, Target] = field(default_factory=dict)
    """What outside code calls, by call number; 0 is the constructor, if there is one."""
    owners: dict[Symbol, tuple[ir.ClassDecl, str]] = field(default_factory=dict)
    """Class and name of the attributes of which nothing is known."""
    comparisons: dict[Symbol, Comparison] = field(default_factory=dict)
    """The sides of open comparisons, whatever is compared."""
    numbers: Numbers = field(default_factory=Numbers)
    compared: dict[Symbol, tuple[Symbol, Symbol]] = field(default_factory=dict)
    equal: dict[Symbol, Symbol] = field(default_factory=dict)
    """What the path took to be equal, of the open comparisons with constants."""
    named: dict[tuple[str, int] | Symbol, int] = field(default_factory=dict)
    held_as: dict[Symbol, str] = field(default_factory=dict)
    """The rank of the name that something has, and the variables of unknown values: ``state/naming.py``."""
    written: dict[tuple[str, Value | Symbol], list[tuple[int, ir.Expr]]] = field(default_factory=dict)
    """How each function writes it, and at which op: ``state/spelling.py``."""
    replaced: dict[tuple[str, str], Value | None] = field(default_factory=dict)
    """What variables of modules and classes were before the path first assigned to them."""
    watch: Watch | None = None
    most_steps: int = LIMITS.path_steps
    most_ops: int = LIMITS.path_ops

    # ------------------------------------------------------------------ budgets and places

    def tick(self) -> None:
        self.steps = steps = self.steps + 1
        if steps > self.most_steps or len(self.ops) > self.most_ops:
            self.stop("steps")
        if not steps & 4_095:
            self.project.budgets.look()

    def stop(self, budget: str) -> NoReturn:
        self.cut.append(budget)
        raise Cut(budget)

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def site(self, span: Span) -> Site:
        turn = self.turns.get(span, 0)
        self.turns[span] = turn + 1
        frame = self.frames[-1] if self.frames else None
        return Site(
            span=span,
            function=frame.function if frame else "",
            text="",
            calls=tuple(self.calls),
            turn=turn,
            call=self.call,
        )

    def emit(self, op: Op) -> int:
        self.ops.extend(self.captures.recorded(selected.doubted(self, op)))
        if self.watch is not None:
            self.watch.issued(self, len(self.ops) - 1)
        return len(self.ops) - 1

    def forget_ops(self, first: int) -> None:
        """Takes back the ops from number ``first`` on, which belong to another time."""
        del self.ops[first:]
        self.life.read = min(self.life.read, first)
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
        number = StreamId(len(self.streams))
        where = device if device is not None else self.device
        made = Stream(number, kind, where, name, span, made_on, passed, call=call_of_maker(self))
        self.streams[number] = replace(made, words=words.of(lib)) if lib is not None else made
        return StreamV(number, lib)

    def new_event(self, name: str, span: Span | None, lib: Lib | None) -> EventV:
        number = EventId(len(self.events))
        made_by = self.frames[-1].function if self.frames else ""
        self.events[number] = Event(number, self.device, name, span, made_by)
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
            name = naming.of_default(kind, where)
            found = self.defaults[kind, where] = self.new_stream(kind, name, None, lib, where)
        return StreamV(found.id, lib) if lib is not None else found

    def current_stream(self, lib: Lib, device: DeviceId | None = None) -> StreamV:
        """The current stream of ``lib`` on this lane: what the caller chose, until code selects another.

        Most others have none: calls without a stream run on the default stream.
        """
        where = device if device is not None else self.device
        lib = Lib.TORCH if lib is Lib.DISTRIBUTED else lib
        found = self.current.get((lib, where, self.lane))
        if found is not None:
            return found
        if lib is Lib.WARP:
            # Warp makes a blocking stream for each device (warp/native/warp.cu) and uses that.
            own = symbols.call("Warp's stream of device", symbols.constant(where))
            if own not in self.roles:
                self.roles[own] = self.new_stream(StreamKind.BLOCKING, "Warp's stream", None, lib, where)
            made = self.roles[own]
            assert isinstance(made, StreamV)
            return made
        if lib not in words.CHOSEN_BY_CALLERS or self.lane != MAIN_LANE:
            return self.default(self.default_stream, lib, where)
        if where not in (CURRENT_DEVICE, "0") and not where.startswith("?"):
            return self.default(self.default_stream, lib, where)
        return self.default(StreamKind.CURRENT, lib, where)

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
    ) -> BufferV:
        number = BufferId(len(self.buffers))
        where = device if device is not None else self.device
        self.buffers[number] = Buffer(number, name, space, origin, where, alloc_stream, span)
        if space is Space.PINNED and origin is not Origin.ARGUMENT and flavor is Flavor.TORCH:
            self.buffers[number] = in_pinned_pool(self.buffers[number])
        self.life.flavors[number] = flavor
        if self.captures.active:
            self.life.captured.add(number)
        if origin is not Origin.ARGUMENT and span is not None:
            self.emit(Alloc(self.site(span), self.lane, buffer=number, stream=alloc_stream, name=by))
        return BufferV(number, WHOLE, flavor)

    def argument(
        self,
        symbol: Symbol,
        space: Space = Space.UNKNOWN,
        flavor: Flavor = Flavor.TORCH,
        kind: Evidence = Evidence.ASSUMED,
        name: str = "",
    ) -> BufferV:
        """The buffer behind an unknown value; it may still be pending on the entry's current stream."""
        view = self.new_buffer(name or naming.called(self, symbol), space, Origin.ARGUMENT, flavor, None)
        given = arguments.passed(symbol)
        self.given[view.id] = symbol
        self.buffers[view.id] = replace(
            self.buffers[view.id], kind=kind, residence=Evidence.ASSUMED, passed=given
        )
        op = self.before_call.get(given.call if given is not None else 0, 0)
        access = Access(view.id, Mode.WRITE, WHOLE, frozenset({Doubt.ARGUMENT}))
        self.pending.setdefault(op, []).append(access)
        return view

    def space(self, view: BufferV) -> Space:
        return self.buffers[view.id].space

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
        bounded.fill(self, made, items)
        return made

    def fresh(self, what: str, span: Span | None = None, holds: tuple[Value, ...] = ()) -> SymV:
        """An unknown value that equals no other."""
        return SymV(self.unlike_any(symbols.Name(what), span), holds)

    def result(self, function: str | Symbol, span: Span | None = None, holds: tuple[Value, ...] = ()) -> SymV:
        """What a call of an unseen function gives: each time something else."""
        called = symbols.Name(function) if isinstance(function, str) else function
        return SymV(self.unlike_any(symbols.Call(called, ()), span), holds)

    def unlike_any(self, what: Symbol, span: Span | None) -> Symbol:
        turn = self.turns.get(span, 0) if span is not None else 0
        if span is not None:
            self.turns[span] = turn + 1
        line, col = (span.line, span.col) if span is not None else (0, 0)
        return symbols.Fresh(what, line, col, turn, self.call, len(self.calls))

    def set_global(self, owner: str, name: str, value: Value) -> None:
        """Assigns to a variable of a module or a class."""
        self.replaced.setdefault((owner, name), self.globals.get((owner, name)))
        self.globals[owner, name] = value

    # ------------------------------------------------------------------ result

    def trace(self) -> Trace:
        """The finished trace, led by the pending writes of its arguments."""
        return Trace(
            ops=tuple(self.ops),
            streams=dict(self.streams),
            events=dict(self.events),
            buffers=dict(self.buffers),
            graphs=dict(self.graphs),
            monitors={monitor.id: monitor for monitor in self.monitors.values()},
            entry=self.entry,
            path=self.oracle.path,
            cut=(*self.cut, "lifetimes") if self.life.scans >= LIMITS.scans else tuple(self.cut),
            assumed_device=self.assumed_device,
            spelled=spelling.of(self),
        )
