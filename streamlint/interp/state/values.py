"""Abstract values. Closed union ``Value``; identity lives in ids and keys, never in names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import Enumeration, frozen
from streamlint.interp.state import symbols
from streamlint.trace import (
    WHOLE,
    Access,
    BufferId,
    EventId,
    Evidence,
    GraphId,
    Mode,
    Region,
    StreamId,
)

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.interp.state.symbols import Plain, Symbol
    from streamlint.models.schema import Lib
    from streamlint.trace import Doubt, LaneId


class Flavor(Enumeration):
    """Which library's object stands for a buffer: it decides what indexing and methods mean."""

    TORCH = "tensor"
    ARRAY = "host array"
    """A numpy array or ctypes array: indexing with an integer reads."""
    POINTER = "pointer"
    """An address: arithmetic moves it, using it as a number reads nothing."""
    DEVICE_ARRAY = "device array"
    """A CuPy array."""
    NUMBA_ARRAY = "Numba device array"
    CORE_BUFFER = "cuda.core buffer"
    PYCUDA_ARRAY = "PyCUDA array"
    WARP_ARRAY = "Warp array"
    RMM_BUFFER = "rmm buffer"
    CUDF_TABLE = "pylibcudf object"
    """A table, a column or a scalar: what is got from it is a part of it."""
    GPU_MAT = "OpenCV matrix"
    DALI_OUTPUT = "output of DALI"
    OPAQUE = "result of an unresolved call"


@frozen()
class ConstV:
    value: Plain
    member: bool = field(default=False, compare=False)
    """Whether it is what a member of an enumeration stands for: ``x.to(Kind.HALF)`` names no device."""
    passed: bool = field(default=False, compare=False)
    """Whether it names the host where a function of the tree was called: ``to_device(outputs, "cpu")``."""


@frozen()
class StreamV:
    """``lib`` is whose object it is (it decides methods and ``with``); the stream may be another's too."""

    id: StreamId
    lib: Lib | None = field(default=None, compare=False)
    raw: bool = field(default=False, compare=False)
    """A bare handle (``stream.cuda_stream``): who gets it launches on the stream, and waits for nothing."""


@frozen()
class EventV:
    id: EventId
    lib: Lib | None = None


@frozen()
class GraphV:
    """A graph; what was captured into it is ``Machine.recordings[id]``."""

    id: GraphId
    lib: Lib | None = field(default=None, compare=False)


@frozen()
class BufferV:
    """A view of a buffer."""

    id: BufferId
    region: Region = WHOLE
    flavor: Flavor = Flavor.TORCH
    bare: bool = False
    """Whether it is an address as a number, which holds nothing: ``x.data_ptr()``."""
    result_of: int | None = field(default=None, compare=False)
    by_name: bool = field(default=False, compare=False)
    """As in ``Access``: see ``interp/state/results.py``."""
    axes: int | None = field(default=None, compare=False)
    """How many axes it has, where that is known: see ``interp/library/axes.py``."""


def reading(view: BufferV, doubts: frozenset[Doubt] = frozenset()) -> Access:
    """Who uses the memory reads it."""
    return Access(view.id, Mode.READ, view.region, doubts, view.result_of, view.by_name)


@frozen()
class DeviceV:
    """A device: ``"1"``, ``"cur"`` (device 0, and the one current at entry), ``"cpu"``, or ``"?key"``."""

    id: str
    exact: str | None = field(default=None, compare=False)
    """As the code says it: a number, or ``"cur"`` where nothing was selected; None if it is not known."""
    by: Evidence = field(default=Evidence.SHOWN, compare=False)
    """How it is known that it is the host, or that it is a GPU."""
    symbol: Symbol | None = field(default=None, compare=False)
    """Which unknown value names it."""
    places: bool = field(default=False, compare=False)
    """Whether it is PyTorch's: ``with torch.device("cuda"):`` says where tensors are made, no more."""
    passed: bool = field(default=False, compare=False)
    """As in ``ConstV``."""

    @property
    def is_host(self) -> bool:
        return self.id == "cpu"


@frozen()
class ApiV:
    """A name outside the analyzed tree, such as ``torch.cuda.Stream``; ``key`` is its dotted path."""

    path: str


@frozen()
class ModuleV:
    """A module of the analyzed tree."""

    name: str


@frozen()
class ClassV:
    decl: ir.ClassDecl


@frozen(eq=False)
class FuncV:
    """A function of the analyzed tree, with what it closes over."""

    function: ir.Function | ir.FunctionDecl
    closure: Env | None = None
    receiver: Value | None = None
    bare: bool = False
    """Without its decorators, as they are given it."""

    @property
    def name(self) -> str:
        return self.function.qualname


@frozen()
class MethodV:
    """``receiver.name`` where the receiver belongs to a framework or is unknown."""

    receiver: Value
    name: str


@frozen(eq=False)
class PartialV:
    func: Value
    args: tuple[Value, ...]
    kwargs: dict[str, Value]


@frozen()
class CallbackV:
    """``CFUNCTYPE(...)(function)``: an object through whose memory ``id`` C code calls the function."""

    id: BufferId
    func: Value = field(compare=False)
    address: bool = field(default=False, compare=False)
    """Only its address (``cast(callback, c_void_p).value``), which does not keep it alive."""


@frozen(eq=False)
class GeneratorV:
    """A generator that was called and not yet run; ``context`` if ``@contextmanager`` wraps it."""

    func: FuncV
    args: tuple[Value, ...]
    kwargs: dict[str, Value]
    context: bool


@frozen()
class TupleV:
    items: tuple[Value, ...]
    size: int = field(init=False, compare=False, repr=False)
    """Elements, with those of tuples in it."""

    def __post_init__(self) -> None:
        size = sum(item.size if isinstance(item, TupleV) else 1 for item in self.items)
        object.__setattr__(self, "size", size)


@frozen()
class HeapV:
    """A mutable object; its content is ``Machine.heap[id]``."""

    id: int


@frozen(eq=False)
class ContextV:
    """A context manager that selects a stream or a device, or does nothing."""

    kind: ContextKind
    value: Value
    lib: Lib | None = None
    mode: Value | None = None
    """The error mode of a capture ..."""
    graph: Value | None = None
    """... the graph that gets it ..."""
    pool: Value | None = None
    """... and whose memory it may use."""
    joins: bool = False
    """The stream that was current waits for this one when the block is left."""


class ContextKind(Enumeration):
    STREAM = "stream"
    DEVICE = "device"
    ALLOCATOR = "allocator"
    NULL = "nullcontext"
    STACK = "ExitStack"
    CAPTURE = "capture"
    SYNC_ON_EXIT = "synchronize on exit"
    PINNED = "page-locked memory"
    CLOSING = "close on exit"
    WAITING = "the current stream waits on exit"
    GROUP = "group of communication"
    COALESCED = "collectives that are one"


@frozen()
class QueryV:
    """The answer of ``event.query()``, ``stream.query()`` or ``future.done()``: true means complete.

    So is that of a wait with a limit, ``flag.wait(5)`` or ``room.acquire(timeout=5)``: true means told.

    With ``status`` it is an error code, equal to ``cudaSuccess`` when complete; ``negated`` is the
    answer to "is it not complete?".
    """

    of: StreamV | EventV | HeapV
    status: bool = False
    negated: bool = False
    told_by: tuple[str, str] | None = None
    """The texts that say that it is complete, and that it is not yet."""


@frozen()
class SymV:
    """An unknown value with an identity: equal symbols are the same value.

    ``holds`` are values that unresolved code received when it made this one, so that a later call
    on it may order or use them: ``pool = Pool(stream); pool.flush()``.
    """

    symbol: Symbol
    holds: tuple[Value, ...] = field(default=(), hash=False)
    computes: str = ""
    """The function of ``torch.nn.functional`` that it computes if it is called: a layer of ``torch.nn``."""


@frozen()
class SliceV:
    lo: Value | None
    hi: Value | None
    step: Value | None


Value: TypeAlias = (
    ConstV
    | StreamV
    | EventV
    | GraphV
    | BufferV
    | DeviceV
    | ApiV
    | ModuleV
    | ClassV
    | FuncV
    | MethodV
    | PartialV
    | CallbackV
    | GeneratorV
    | TupleV
    | HeapV
    | ContextV
    | QueryV
    | SymV
    | SliceV
)

NONE = ConstV(None)
TRUE = ConstV(True)
FALSE = ConstV(False)


class Shape(Enumeration):
    INSTANCE = "instance"
    LIST = "list"
    DICT = "dict"
    SET = "set"


@frozen()
class Born:
    """How many streams, events, buffers and objects there were at a time."""

    streams: int
    events: int
    buffers: int
    objects: int
    each: tuple[symbols.Item | symbols.Memory, ...] = ()
    """What the sample was made of: ``blocks[each]`` in ``[Hook(b) for b in blocks]``, where the first hook is
    that of ``blocks[0]``."""
    works: bool = False
    """Whether work was queued aside for the sample: on the stream of its number, and not of the others'."""


@dataclass(slots=True)
class HeapObject:
    """A mutable object.

    Instances keep attributes in ``attrs``, sequences their ``items``, dicts ``entries`` and their ``keys``.
    ``open`` says that there are more elements than those listed (a comprehension over something
    of unknown length): then ``sample`` stands for an element not listed, and asking for a new key
    makes one like it.
    """

    shape: Shape
    cls: ir.ClassDecl | None = None
    attrs: dict[str, Value] = field(default_factory=dict)
    entries: dict[Symbol, Value] = field(default_factory=dict)
    keys: dict[Symbol, Value] = field(default_factory=dict)
    items: list[Value] = field(default_factory=list)
    open: bool = False
    sample: Value | None = None
    rest: Value | None = None
    """What stands behind the ``items``, of unknown length: ``columns`` of ``[first, *columns]``."""
    key_sample: Value | None = None
    """Of an open dict: the key under which the sample stands."""
    born: Born | None = None
    """What there was before the sample was made, and what other elements therefore share with it."""
    filled: bool = False
    """Whether a loop of unknown length put there what it holds: a walk over it comes by what its passes put
    there, and by what was asked for, and these stand for all."""
    symbol: Symbol | None = None
    """What unseen code would call it; without one it is told apart by its number."""
    role: str = ""
    """What it is for the interpreter: ``range``, ``zip`` and their kin, a thread, a monitor."""
    kind: str = ""
    """The class, where it is not the one that the shape stands for: ``deque``, ``tuple``, ``Queue``."""
    most: int | None = None
    """How many elements it keeps: ``deque(maxlen=2)`` lets the others go at the other end."""
    counted: bool = False
    """Whether code has asked how many elements there are: then that decides what it does."""
    extra: dict[Symbol, Value] = field(default_factory=dict)
    """Elements of an open container that were asked for by an unknown index."""
    told: dict[str | Symbol, tuple[HeapV, LaneId]] = field(default_factory=dict)
    """Attributes and elements that a thread or a host function has put there, and nobody else has seen, with
    who tells of it."""
    chosen: dict[str, tuple[Symbol, ...]] = field(default_factory=dict)
    """Attributes to which the constructor gave constants, and the open tests by which it chose them."""

    @property
    def named(self) -> list[Value]:
        """What it holds under a name or a key."""
        return [*self.attrs.values(), *self.entries.values()]


@dataclass(slots=True)
class Env:
    """Names of one function activation; ``parent`` is the enclosing function's."""

    names: dict[str, Value]
    module: str
    parent: Env | None = None
    number: int = 0
    """Counts the activations of a path: functions made by two calls of a factory are two."""
    outer: frozenset[str] = frozenset()
    """Names declared ``global`` (looked up in the module) ..."""
    enclosing: frozenset[str] = frozenset()
    """... and ``nonlocal``."""


@frozen()
class Comparison:
    """An open comparison that a path has come by: never ``!=`` and its kin, which are negations."""

    op: str
    left: Value
    right: Value

    @property
    def is_equality(self) -> bool:
        return self.op in ("==", "is")


def symbol_of(value: Value) -> Symbol:
    """A symbol that is equal for equal values: it correlates conditions and unknown indices."""
    match value:
        case SymV(symbol):
            return symbol
        case ConstV(plain):
            return symbols.constant(plain)
        case StreamV(number):
            return symbols.Thing("stream", number)
        case EventV(number):
            return symbols.Thing("event", number)
        case GraphV(number):
            return symbols.Thing("graph", number)
        case CallbackV(number):
            return symbols.Thing("callback", number)
        case HeapV(number):
            return symbols.Thing("object", number)
        case BufferV(number, region):
            return symbols.Memory(number, region)
        case DeviceV(name):
            return symbols.Thing("device:", name)
        case ApiV(path) | ModuleV(path):
            return symbols.Name(path)
        case ClassV(decl):
            return symbols.Name(decl.qualname)
        case TupleV(items):
            return symbols.Tuple(tuple(map(symbol_of, items)))
        case QueryV(of):
            return symbols.call("query", symbol_of(of))
        case MethodV(receiver, name):
            return symbols.Attr(symbol_of(receiver), name)
        case SliceV(lo, hi, step):
            return symbols.Slice(*(None if part is None else symbol_of(part) for part in (lo, hi, step)))
        case FuncV(function, closure, receiver):
            at, number = function.span, closure.number if closure is not None else 0
            owner = symbol_of(receiver) if receiver is not None else None
            return symbols.Function(function.qualname, at.line, at.col, number, owner)
        case PartialV(func, args) | GeneratorV(func, args):
            # partial(f, f, f) thirty times: what is inside of one among the arguments tells nothing more.
            given = (_MORE if isinstance(arg, (PartialV, GeneratorV)) else symbol_of(arg) for arg in args)
            return symbols.Call(symbol_of(func), tuple(given))
        case ContextV(kind, inner):
            return symbols.call(kind.value, symbol_of(inner))


def each_of(value: Value) -> SymV:
    """What stands for all elements."""
    return SymV(symbols.Item(symbol_of(value), symbols.EACH))


def given_by(function: str, *args: Value) -> SymV:
    """What a function gives that gives the same for the same: ``len(xs)``."""
    return SymV(symbols.call(function, *map(symbol_of, args)))


_MORE = symbols.Name("...")


def told(value: Value) -> str:
    """A value as a message tells it."""
    return symbols.text_of(symbol_of(value))
