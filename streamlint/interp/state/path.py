"""What a path has done so far, as data: all that is copied where another path goes on from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.interp.state.captures import Captures, Recording
from streamlint.interp.state.forms import Forms
from streamlint.interp.state.lives import Lifetimes
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
    FuncV,
    GeneratorV,
    HeapObject,
    PartialV,
    StreamV,
    SymV,
    Value,
)
from streamlint.trace import (
    CURRENT_DEVICE,
    MAIN_LANE,
    Access,
    Buffer,
    BufferId,
    DeviceId,
    Event,
    EventId,
    Graph,
    GraphId,
    LaneId,
    Launch,
    Monitor,
    Op,
    Region,
    Stream,
    StreamId,
    StreamKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint import ir
    from streamlint.interp.state.frames import Driven
    from streamlint.interp.state.put_off import Applied, Bound, Feeder, Guess, Pool, Saved, ThreadBody
    from streamlint.interp.state.scope import Scope, Target
    from streamlint.interp.state.stepped import Stepped
    from streamlint.interp.state.symbols import Symbol
    from streamlint.models.schema import Lib
    from streamlint.source import Span


@dataclass(slots=True)
class Path:
    """Streams, events and memory, the operations issued, and what the code has shown of its values."""

    ops: list[Op] = field(default_factory=list)
    streams: dict[StreamId, Stream] = field(default_factory=dict)
    events: dict[EventId, Event] = field(default_factory=dict)
    buffers: dict[BufferId, Buffer] = field(default_factory=dict)
    heap: dict[int, HeapObject] = field(default_factory=dict)
    roles: dict[Symbol, Value] = field(default_factory=dict)
    """What a symbolic value turned out to be: a stream, an event, a buffer or an object."""
    attributed: dict[str, dict[Symbol, None]] = field(default_factory=dict)
    """Unknown values on which code has put an attribute of a name: use may show later that one is memory."""
    called_numbers: dict[Symbol, BufferV] = field(default_factory=dict)
    """Results of unseen calls that are taken for numbers by the names of their variables, and for memory as
    soon as code uses them as some: ``value = self.v_proj(x)``, then ``value.record_stream(side)``."""
    globals: dict[tuple[str, str], Value] = field(default_factory=dict)
    remembered: dict[Symbol, Value] = field(default_factory=dict)
    """What functions gave that remember it: see ``python/caching.py``."""
    current: dict[tuple[Lib, DeviceId, LaneId], StreamV] = field(default_factory=dict)
    used: dict[tuple[Lib, DeviceId, LaneId], StreamV | None] = field(default_factory=dict)
    """What a block has made current, where ``stream.use()`` of CuPy's has made another one so since."""
    defaults: dict[tuple[StreamKind, DeviceId], StreamV] = field(default_factory=dict)
    device: DeviceId = CURRENT_DEVICE
    exact_device: DeviceId | None = CURRENT_DEVICE
    """The current device as the code says it: see ``DeviceV.exact``."""
    device_symbol: Symbol | None = None
    """What names it, where that is not known: see ``DeviceV.symbol``."""
    selected_on: dict[StreamId, Symbol | None] = field(default_factory=dict)
    """What named the device when CuPy's current stream was chosen: see ``interp/state/selected.py``."""
    made_for: dict[Symbol, Symbol] = field(default_factory=dict)
    """What names the device of a stream, an event or memory that code has made, where that is not known."""
    pushed: list[DeviceV] = field(default_factory=list)
    """Devices whose contexts were pushed aside (``cuCtxPushCurrent``)."""
    lane: LaneId = MAIN_LANE
    calls: list[Span] = field(default_factory=list)
    call: int = 0
    steps: int = 0
    activations: int = 0
    lanes: int = 1
    turns: dict[tuple[Span, int], int] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    pending: dict[int, list[Access]] = field(default_factory=dict)
    """Arguments that may still be written on the current stream when a call from outside starts, by the op
    that stands for what its caller did before."""
    before_call: dict[int, int] = field(default_factory=dict)
    """That op, by call number."""
    results: dict[Symbol, int] = field(default_factory=dict)
    """What modules give that are not seen, by the op that computes it: ``def tap(module, args, output)``."""
    applied: list[Applied] = field(default_factory=list)
    """Functions of autograd that the next backward pass runs, the last one first."""
    made_in: dict[ir.ClassDecl, Env] = field(default_factory=dict)
    """The variables that classes inside of functions see: those of the last call that made each."""
    closures: dict[str, FuncV] = field(default_factory=dict)
    """Functions defined inside of others, by module and qualified name: see ``entries/closures.py``."""
    wrapped: dict[Symbol, FuncV] = field(default_factory=dict)
    """Functions of the program by what functions of other packages gave for them."""
    parameters: dict[Symbol, tuple[Scope, str]] = field(default_factory=dict)
    """What unseen callers pass: the function and the parameter."""
    keys: dict[tuple[str, str], SymV] = field(default_factory=dict)
    """What they pass as keys, by the attribute of the object and the parameter: ``facts/call_keys.py``."""
    denied: dict[Symbol, list[Symbol]] = field(default_factory=dict)
    """What was taken not to be of some classes, and the tests that said so."""
    usual: set[Symbol] = field(default_factory=set)
    """Flags that are set unless somebody says otherwise: ``options.get("non_blocking", True)``."""
    of_numpy: set[Symbol] = field(default_factory=set)
    """What NumPy has computed of arrays, by functions and operators: it is on the host."""
    parted: set[tuple[Symbol, bool]] = field(default_factory=set)
    """What comprehensions have asked of elements that they took, and whether for the opposite."""
    plain: set[Symbol] = field(default_factory=set)
    """Unknown values that were passed where an annotation wants a number or the like."""
    unpacked: set[BufferId] = field(default_factory=set)
    """What unseen code gave as several things: ``rows, work = comm.start(x)``."""
    put_back: set[BufferId] = field(default_factory=set)
    """What it gave as a list, of which a moved element took its own place: see ``library/stored.py``."""
    waited_for: set[tuple[BufferId, Region]] = field(default_factory=set)
    """Those of them that are no memory: ``work``."""
    objects: set[BufferId] = field(default_factory=set)
    """What was taken for a tensor and turned out to be a module: ``build().cuda().eval()``."""
    unlisted: set[BufferId] = field(default_factory=set)
    """Parameters of modules that have computed aside before anything has listed them."""
    modules: set[Symbol] = field(default_factory=set)
    """Unknown values that a method has shown to be modules: ``self.models[name].eval()``."""
    named_like: dict[Symbol, Symbol] = field(default_factory=dict)
    """Copies of unknown objects, and of what: the parameters of both have the same names."""
    spread: dict[Span, Value] = field(default_factory=dict)
    """Calls with keywords that are not all known, and what holds them: ``DataLoader(dataset, **options)``."""
    device_modules: set[Symbol] = field(default_factory=set)
    """Unknown values whose methods have shown that they are device modules, like ``torch.cuda``."""
    bound: dict[Symbol, dict[Symbol, Bound]] = field(default_factory=dict)
    """Addresses that objects keep for their later work, by object and name."""
    lent: dict[Symbol, list[BufferV]] = field(default_factory=dict)
    """Memory that a library has handed out, by the object that takes it back."""
    addresses: dict[BufferId, tuple[Value, ...]] = field(default_factory=dict)
    """What host arrays were made of that hold addresses: ``np.array([int(pointer)], dtype=np.uint64)``."""
    works_in: dict[Symbol, BufferV] = field(default_factory=dict)
    """Memory that objects keep for themselves, as a context of TensorRT does: no code sees it."""
    numbered: bool = False
    """Whether the code has made a device of a number that is not known ..."""
    premises: list[str] = field(default_factory=list)
    """... and what is taken for granted of what is not known, beside the path's decisions."""
    run_by_several: bool = False
    counted_device: bool = False
    """Whether something that counts named a device: the first of those is taken to be the current one."""
    assumed_device: bool = False
    """As in ``Trace``, and so is ..."""
    unseen: list[int] = field(default_factory=list)
    asking: list[int] = field(default_factory=list)
    allocator: Value = NONE
    """What gives CuPy's arrays their memory, where the code has chosen it."""
    default_device: Value = NONE
    """Where PyTorch makes tensors that no device is named for, where the code has said so ..."""
    default_since: int = 0
    """... the call from outside, as in ``Site.call``, in which it was said ..."""
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
    beside: dict[BufferId, Symbol] = field(default_factory=dict)
    """Whose device that of a tensor is: what it was computed from, or was made for by ``device=x.device``."""
    makers: dict[Symbol, str] = field(default_factory=dict)
    """The path of the unseen function that gave a value."""
    last_backward: int | None = None
    last_return: Span | None = None
    life: Lifetimes = field(default_factory=Lifetimes)
    uses_none: bool = False
    """A member of ``None`` was used: something that sets the variable must have been called before."""
    left_none: int = -1
    """At which step code last read an attribute that is ``None`` until some method has set it."""
    covered: set[str] = field(default_factory=set)
    """Qualified names of functions that were run."""
    constructed: set[int] = field(default_factory=set)
    """Objects, by their numbers on the heap, that the code that runs constructs by itself."""
    given_objects: set[int] = field(default_factory=set)
    """Objects of classes of the tree that it gets from unseen code."""
    driven: set[Driven] = field(default_factory=set)
    """Methods called on these, ..."""
    calls_of: dict[tuple[int, str], int] = field(default_factory=dict)
    """... and how often, by the object and the name."""
    constructing: bool = False
    """Whether the object that the entry is about is being made, or a module imported; branches of that are
    explored last."""
    did: object = None
    """What the path did, as ``runs.outline`` tells it."""
    whole: bool = False
    """Whether the path came to the end of its entry."""
    rebound: bool = False
    """Whether a ``nonlocal`` variable of a function that has returned was assigned."""
    loops: int = 0
    loops_end: int = 0
    """How many loops are open, and the step after which those of known length make no further pass."""
    taken: int = 0
    """How many elements code has taken out of containers: ``free.pop()``."""
    left_elements: bool = False
    """Whether a loop did not come by all elements of a list that the program has filled."""
    endless: int = 0
    """How many of the open loops only a ``break`` leaves: ``while True``."""
    ahead: int = 0
    """Passes of the innermost loop that come behind this one, whether they are run or not."""
    walked: list[Value] = field(default_factory=list)
    """What the open loops of unknown length are bound to in this pass; ``None`` where that says nothing."""
    filling: Born | None = None
    """What there was before the outermost loop of unknown length that is open ..."""
    filled: dict[int, Symbol] = field(default_factory=dict)
    """... and the dicts that it fills, with a key that a pass puts there."""
    stores: Stores = field(default_factory=Stores)
    guesses: dict[Symbol, Guess] = field(default_factory=dict)
    """Operators on unknown values, by their result: see ``interp/facts/guesses.py``."""
    captures: Captures = field(default_factory=Captures)
    entered: dict[ContextV | StreamV | DeviceV, Callable[[], None]] = field(default_factory=dict)
    """What leaving a context does that was entered by hand."""
    stacks: dict[ContextV, list[Callable[[], object]]] = field(default_factory=dict)
    """What leaving an ``ExitStack`` that is open does."""
    handed: set[tuple[BufferId, str]] = field(default_factory=set)
    """Memory that was handed to a library without an order: see ``interp/library/handoffs.py``."""
    shared: dict[BufferId, None] = field(default_factory=dict)
    """Memory that other processes may have opened, ..."""
    shared_events: dict[EventId, None] = field(default_factory=dict)
    """... events that they may wait for, ..."""
    each_of: dict[EventId, EventId] = field(default_factory=dict)
    """(events that stand for each of a container which code walks over, and the sample of that)"""
    peer: StreamId | None = None
    """... and the stream that stands for them: ``library/processes.py``."""
    graphs: dict[GraphId, Graph] = field(default_factory=dict)
    recordings: dict[GraphId, Recording] = field(default_factory=dict)
    """What was captured into each graph; none for one that nothing was captured into, as far as was seen."""
    graphed: dict[GraphId, BufferV] = field(default_factory=dict)
    """The static output of graphs that are called like the function that was captured."""
    left_by: dict[BufferId, int] = field(default_factory=dict)
    """The last launch of a graph that has written memory anew: see ``interp/state/results.py``."""
    asleep: dict[int, list[ThreadBody]] = field(default_factory=dict)
    """Threads that wait for what is put into a queue, by its number on the heap."""
    polling: dict[LaneId, ThreadBody] = field(default_factory=dict)
    """Threads that wait for numbers to change ..."""
    asked_aside: dict[LaneId, dict[tuple[int, str], None]] = field(default_factory=dict)
    """... and for which each of the threads has asked."""
    left_asleep: list[ThreadBody] = field(default_factory=list)
    """Threads that were woken more often than is followed: how they end is not known."""
    coalescing: StreamId | None = None
    """The stream of the process group whose collectives are made one in the block that runs."""
    open_groups: int = 0
    """How many groups of communication have been started and not ended ..."""
    group: int = 0
    """... which of all the outermost one is ..."""
    grouped: list[Launch] = field(default_factory=list)
    """... and what was called in them: ``interp/library/grouped.py``."""
    stepped: dict[GeneratorV, Stepped] = field(default_factory=dict)
    """Generators that are stepped by hand."""
    feeders: dict[LaneId, Feeder] = field(default_factory=dict)
    """Loops of threads that go on when others use their queues: ``library/feeding.py``."""
    fed: frozenset[int] = frozenset()
    drained: frozenset[int] = frozenset()
    """Queues that the innermost loop of unknown length of the running thread has filled, and taken from."""
    thread_from: int = 0
    """How many functions were open when the running thread began."""
    blocks_of: int = 0
    """How many blocks are open of objects that may be locks, for all that is known: ``with self.mutex:``."""
    threads: dict[LaneId, LaneId] = field(default_factory=dict)
    """The first lane of a thread, by those that it had later ..."""
    made_by_lane: dict[tuple[LaneId, Span], list[StreamV]] = field(default_factory=dict)
    """The streams that each has made, by the call."""
    pooled: set[LaneId] = field(default_factory=set)
    """... and the lanes of pools, which may be of one thread."""
    pools: dict[Symbol, Pool] = field(default_factory=dict)
    """What pools of threads were given to do."""
    hooks: dict[tuple[str, Symbol], list[FuncV | PartialV]] = field(default_factory=dict)
    """Functions that PyTorch calls, by the method that took them and what it was called on."""
    hooked: dict[Symbol, Value] = field(default_factory=dict)
    """What that was ..."""
    hooked_at: dict[Symbol, Span] = field(default_factory=dict)
    handles: dict[Symbol, tuple[tuple[str, Symbol], FuncV | PartialV]] = field(default_factory=dict)
    """By what registering one gave: which hook its ``remove()`` takes away."""
    awaiting_backward: dict[Symbol, None] = field(default_factory=dict)
    """Modules with hooks behind their backward pass that were called since the last one."""
    """... and where the last of them was registered."""
    accumulated: set[BufferId] = field(default_factory=set)
    """Gradients that a backward pass of the path has computed, and that no code has let go of since."""
    backward_from: int = 1
    """The call from outside, of a hook, with which the backward pass that runs began ..."""
    orders_between: bool = False
    """... and whether who begins the next one may call something in between that orders."""
    packs: frozenset[str] = frozenset()
    """Methods of the object at hand that autograd calls with what an operator saves: ``self.pack``."""
    saving: tuple[Value, Value] | None = None
    """Hooks of saved tensors of the block that runs ..."""
    saved: list[Saved] = field(default_factory=list)
    """... and what went through some."""
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
