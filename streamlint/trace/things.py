"""What ops are about: streams, events, memory, graphs, monitors, and where an op comes from."""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, NewType, TypeAlias

from streamlint.frozen import Enumeration, frozen
from streamlint.trace.regions import WHOLE, Region, Selector

if TYPE_CHECKING:
    from streamlint.source import Span

OpId = NewType("OpId", int)
StreamId = NewType("StreamId", int)
EventId = NewType("EventId", int)
BufferId = NewType("BufferId", int)
LaneId = NewType("LaneId", int)
GraphId = NewType("GraphId", int)
MonitorId = NewType("MonitorId", int)
DeviceId: TypeAlias = str
"""``"cur"`` is the device current at entry; otherwise an index, or a name that stands for one."""

MAIN_LANE = LaneId(0)
CURRENT_DEVICE: DeviceId = "cur"
THREAD_DEVICE: DeviceId = "0"
"""Device 0 where it is told from that: current in a new thread of a program that works on another one."""


class StreamKind(Enumeration):
    """What decides a stream's implicit edges."""

    LEGACY = "legacy default stream"
    PER_THREAD = "per-thread default stream"
    BLOCKING = "blocking stream"
    NON_BLOCKING = "non-blocking stream"
    CURRENT = "stream current at entry"
    """Unknown: the legacy default stream unless the caller selected another one."""
    UNKNOWN = "stream from outside"
    """A stream handed in by code that was not seen; it may equal any other stream."""


class Space(Enumeration):
    """Where a buffer lives."""

    DEVICE = "device"
    PINNED = "pinned host"
    PAGEABLE = "pageable host"
    MANAGED = "managed"
    UNKNOWN = "unknown"

    @property
    def on_host(self) -> bool:
        return self in (Space.PINNED, Space.PAGEABLE)


class Evidence(IntEnum):
    """How a fact about a value is known, the weakest first: of two that must both hold the lesser counts."""

    ASSUMED = 0
    """Nothing says so: a parameter that merely takes part in arithmetic, or is handed to unresolved code."""
    INFERRED = 1
    """It is used as only such a thing can be: ``x.record_stream(s)``, or together with what is shown."""
    SHOWN = 2
    """The code says it: a constructor, a documented result, ``x: torch.Tensor``, ``assert x.is_cuda``."""


class Origin(Enumeration):
    """How a buffer came into the trace."""

    ALLOCATED = "allocated"
    ARGUMENT = "argument"
    RESULT = "result"


class Mode(Enumeration):
    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    ADD = "add"
    """Atomic additions: ``cuda.atomic.add(histogram, bin, 1)``. They come to the same in any order."""

    @property
    def reads(self) -> bool:
        return self is not Mode.WRITE

    @property
    def writes(self) -> bool:
        return self is not Mode.READ

    def commutes(self, other: Mode) -> bool:
        """Whether two accesses need no order: reads, or additions that are both atomic."""
        return self is other and self in (Mode.READ, Mode.ADD)


class Doubt(Enumeration):
    """Why an op, an edge or a finding is not certain. Confidence is computed from these."""

    PATH = "a branch was assumed"
    OPAQUE = "an unresolved call is taken to use its arguments"
    CALLS = "an order of outside calls was assumed"
    ARGUMENT = "an argument may still be pending on the current stream"
    RESULT = "a result may be used on the current stream as soon as the call returns"
    SAME_STREAM = "two streams may be one"
    ALIAS = "two places may not overlap"
    ESCAPE = "unresolved code received the stream, event or buffer and may order it"
    THREADS = "two threads issue the operations, and what orders the threads is not followed"
    SIGNAL = "work of one stream waits for a value in memory that another writes"
    SOME_PATHS = "ordered on some paths only"
    OBSERVED = "ordered by measured behaviour that is not documented"
    DEVICE = "another device may be current than it seems"
    GUESSED = "both operations are assumptions about unresolved calls"
    BUDGET = "an analysis budget ran out"
    INFERRED = "what a value is, or where it lives, is known from how it is used"
    ASSUMED = "what a value is, or where it lives, is assumed"
    FAR = "the two places stand in different files, and what orders them may stand in a third"
    REPORTED = "CUDA would report it at the first run, and it does not happen on every path"


@frozen()
class Passed:
    """What code that is not seen passes in a call: an argument, or what is reached from one."""

    call: int
    """The call from outside, as in ``Site.call``; 0 is that of the constructor."""
    name: str
    """The parameter."""
    part: str = ""
    """``.lane`` of ``mixer.lane``, ``[0]`` of ``lanes[0]``; nothing for the argument itself."""
    rest: bool = False
    """Whether it is among those that ``*name`` takes."""
    in_record: bool = False
    """Whether it is a field of an object whose class has no methods: who else has that names the field."""

    @property
    def is_argument(self) -> bool:
        return not self.part and not self.rest

    @property
    def at_construction(self) -> bool:
        """Whether the object got it when it was made."""
        return self.call == 0 and not self.rest


@frozen()
class Words:
    """How the library of a stream writes what orders it: templates, empty where it has no such call."""

    library: str
    """Its name in messages, such as ``"CuPy"``."""
    wait: str
    """``"{second}.wait_stream({first})"``: one stream waits for all that another has queued."""
    current: str = ""
    """The call that gives the current stream ..."""
    default: str = ""
    """... and the default stream."""
    keep: str = ""
    """``"{memory}.record_stream({stream})"``: memory is kept until a stream is done with it."""


@frozen()
class Stream:
    id: StreamId
    kind: StreamKind
    device: DeviceId
    name: str
    span: Span | None = None
    made_on: DeviceId | None = None
    """The device as the code names it, also ``"0"``; ``"cur"`` where it selected none, None if not known."""
    passed: Passed | None = None
    among: str = ""
    """The container of which it is an element, if what chooses among those is not always known ..."""
    chosen: bool = False
    """... and whether it was chosen like that: it may be another one of them."""
    handed: bool = False
    """Whether the code put it into an object of its caller's, who knows it from there."""
    call: int | None = None
    """The call from outside (``Site.call``) in which an object made it for itself, if it did."""
    words: Words | None = None
    """How code orders it by a method; None if its library has none, or is not known."""
    behind_current: bool = False
    """Whether each call that works on it makes it wait for the stream current then: a process group's."""
    made_like: StreamId | None = None
    """What stands for it where a container of unknown length was filled: what was queued on that one then,
    ``lanes = [Lane() for _ in devices]``, was queued on this one too."""
    may_be_current: bool = False
    """Whether an object of the caller's makes it current in its blocks, and the call may come from one."""
    current_at_caller: bool = False
    """Whether a caller in sight, which passes it, has it current there: also the call's own blocks of it
    select nothing else then."""
    by_call: bool = False
    """Whether it is that of a call which works aside (``comm.Send(x)``): it has the name of the call."""
    of_program: bool = False
    """Whether it is current before a program, which nobody calls, selects any: the legacy default stream."""
    put_there: bool = False
    """Whether other code has put it into an object of a class in sight, which does not make it itself."""
    may_be_given: bool = False
    """Whether unseen code passes the object that made it, and may have given that one another stream for it:
    ``self.stream = stream or torch.cuda.Stream()``."""
    part_of: str = ""
    """The class of an object that unseen code passes, and which of its streams this is ..."""
    handed_on: bool = False
    """... and whether another object was made with that object: ``Group(weight, context)``. Unseen code may
    pass it elsewhere too."""

    @property
    def is_default(self) -> bool:
        return self.kind in (StreamKind.LEGACY, StreamKind.PER_THREAD, StreamKind.CURRENT)


@frozen()
class Holders:
    """The names by which code gets at something: attributes of objects, and variables of its module."""

    attributes: frozenset[str]
    variables: frozenset[str]


@frozen()
class Event:
    id: EventId
    device: DeviceId
    name: str
    span: Span | None = None
    function: str = ""
    """The function that made it, as in ``Site.function``."""
    earlier: bool = False
    """Whether code that is not in the trace may have recorded it: the event of a module or of an object."""
    timing: bool | None = None
    """Whether times can be read from it; ``None`` if that is not known."""
    made_on: DeviceId | None = None
    """The device that it belongs to, as in ``Stream.made_on``."""
    implied: bool = False
    """Whether a call made it for itself, as ``wait_stream`` does: code cannot name it."""
    of_call: bool = False
    """Whether it is what a call gave to wait for: a collective's handle. No code records it."""
    wait: str = "wait"
    """Its method by which the current stream waits for it."""
    made_like: EventId | None = None
    """What stands for it in a container of unknown length, if that was recorded as it was made: until it is
    recorded itself, it holds what that one did first."""
    handed: bool = False
    """Whether a call from outside gave it back: its caller may wait for it."""
    lost: bool = False
    """Whether nothing held it any more when the call ended that recorded it: nobody can wait for it."""
    holders: Holders | None = None
    """What holds it when a call is over, if that is known; none of a caller, or of code that is not seen."""
    lane: LaneId = MAIN_LANE
    """The host thread that made it."""

    @property
    def is_named(self) -> bool:
        """Whether the source has it: ``wait_stream`` makes one of its own, and a collective its handle."""
        return not self.implied and not self.of_call


@frozen()
class Buffer:
    """A block of memory; views share their base's buffer and differ in region."""

    id: BufferId
    name: str
    space: Space
    origin: Origin
    device: DeviceId = CURRENT_DEVICE
    alloc_stream: StreamId | None = None
    span: Span | None = None
    pool: str | None = None
    """The pool that hands the block out again once it is dropped, whatever still uses it ..."""
    pool_number: int = 0
    """... and which of several pools of that kind: ``lane.pool = DeviceMemoryPool()``."""
    pool_awaits: str = ""
    """The library whose own copies the pool waits for before it does."""
    kind: Evidence = Evidence.SHOWN
    """How it is known that this is memory at all, and no number, text or object ..."""
    residence: Evidence = Evidence.SHOWN
    """... and where it lives."""
    of_values: bool = False
    """Whether it was made of Python's values, which are few: ``torch.tensor([step])``."""
    passed: Passed | None = None
    handed: bool = False
    """Whether the code put it into an object of its caller's, who has it from there."""
    in_array: bool = False
    """Whether a call hands it out as an array of the host's: who reads that knows of no stream."""
    lent: bool = False
    """Whether the code put it into a tensor of others, ``p.data = block``, who use it between the calls."""
    instead_of: BufferId | None = None
    """What it may be itself: ``y = x.contiguous()`` copies nothing where there is nothing to do ..."""
    elsewhere: bool = False
    """... and a variable names the device, which may be another one than that of what it was made from."""
    first_part: Selector | None = None
    """What stands for each of its parts, if a walk that tells them apart began with that: it is the first."""

    @property
    def home(self) -> tuple[str | None, int, DeviceId]:
        """Where the block goes back to: memory of another home is never in the same place."""
        return self.pool, self.pool_number, self.device


@frozen()
class Graph:
    """An executable graph: captured work that a launch of the graph runs again.

    Its launches are ordered among each other, whatever their streams.
    """

    id: GraphId
    name: str
    span: Span | None = None


class MonitorKind(Enumeration):
    LOCK = "lock"
    """One thread holds it at a time: a wait takes it, a signal gives it back."""
    FLAG = "flag"
    """Set once for all that wait: an event of ``threading``, the result of a future."""
    SEMAPHORE = "semaphore"
    """As many as its `count` have it at a time: a wait takes it, a signal gives it back."""
    QUEUE = "queue"
    TASKS = "tasks of a queue"
    """What is in the queue is done: ``queue.task_done()``. A wait, ``queue.join()``, is for all of it."""
    CONDITION = "condition"
    """Told to all that wait, each time that something has changed. Its lock is left out."""
    ATTRIBUTE = "attribute"
    """Set by one thread, and seen by another one: ``slot.busy = False``. Nobody waits."""


@frozen()
class Monitor:
    """At what host threads, and host callbacks, wait for each other."""

    id: MonitorId
    kind: MonitorKind
    name: str
    span: Span | None = None
    cleared_after: int | None = None
    """A flag that is cleared somewhere: which signal a wait saw cannot be told. It had so many when it was
    cleared last."""
    count: int = 0
    """How often a semaphore may be taken before anybody gives it back, or how much goes into a queue: 0 for
    any number, -1 where it is not known."""
    uncounted: bool = False
    """A semaphore that was perhaps not taken, or given back nobody knows how often."""


@frozen()
class Access:
    buffer: BufferId
    mode: Mode
    region: Region = WHOLE
    doubts: frozenset[Doubt] = frozenset()
    result_of: int | None = field(default=None, compare=False)
    """The launch of a graph, by its number among the ops, whose result the code takes the memory for."""
    by_name: bool = field(default=False, compare=False)
    """Whether that is only what a variable was bound to behind the launch: it may mean the memory itself."""


@frozen()
class Site:
    """Where an op comes from.

    ``text`` is the whitespace-normalized statement. ``calls`` is the chain of call sites from the
    entry down to the function that holds ``span``. ``turn`` counts executions of the same place
    within one call from outside, and ``call`` these calls (0 is the constructor or the only one).
    ``quiet`` of the last of ``calls`` are of functions whose text names no stream: on which one they work,
    and what comes before and after them, is a matter of who calls the first of these. ``following`` of them
    may start copies beside the host, too: where a caller has entered a stream, these run on that.
    """

    span: Span
    function: str = ""
    text: str = ""
    calls: tuple[Span, ...] = ()
    turn: int = 0
    call: int = 0
    quiet: int = 0
    following: int = 0

    def answerable(self, *, entered: bool) -> tuple[Span, ...]:
        """The calls that lead to the function which answers for the order of the op, and its place there.

        ``entered``: whether the op works on a stream that some caller has entered.
        """
        count = self.following if entered else self.quiet
        return self.calls[: len(self.calls) - count + 1] if count else (*self.calls, self.span)


class HostEffect(Enumeration):
    """What a copy means to the host thread that issues it (measured: docs/semantics)."""

    ASYNC = "returns at once"
    STAGED = "returns once the source was read; the destination is not complete"
    BLOCKS = "returns when the copy is complete"
    BLOCKS_OBSERVED = "was seen to block, which no document promises"


class Purpose(Enumeration):
    """Why the host waits in a call."""

    ORDER = "the call is there to wait: ``stream.synchronize()``"
    ANSWER = "a query answered that the work is done"
    VALUES = "the host looks at values on the way: ``x.item()``, ``x[mask]``"
    ASIDE = "it comes with something else: host memory is staged, a capture begins"


QUERY = "query()"
"""What a path says of an answer of the device, among its decisions: either may come in any run."""


class AllocKind(Enumeration):
    """What an allocation is to the stream that orders it."""

    CACHED = "a caching allocator hands out a block"
    QUEUED = "the allocation itself is work of the stream: ``cudaMallocAsync``"
    CALL = "the call asks for the memory by itself: ``cudaMalloc``, ``cupy.cuda.alloc()``"


class Makes(Enumeration):
    """What an operator makes of its operand."""

    VALUES = "values of its own"
    COPY = "the same values elsewhere: ``x.clone()``"
    AS_IT_IS = "the operand itself, if there is nothing to do: ``x.contiguous()``"
    CONVERTED = "the same values in another type, or the operand itself: ``x.half()``"


class FreeKind(Enumeration):
    EXPLICIT = "freed"
    DROPPED = "last reference dropped"


class StreamChoice(Enumeration):
    """How the call that queued device work chose its stream."""

    IMPLIED = "it takes no stream: its work is on the current or the default stream"
    NAMED = "it was given a stream"
    LEFT_OUT = "it takes a stream and was given none"
    """``None`` is no stream; ``0`` names the default stream."""
    AS_DATA = "it takes a stream, and was given one among the arguments of the kernel only"
