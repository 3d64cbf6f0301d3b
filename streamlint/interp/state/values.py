"""Abstract values. Closed union ``Value``; identity lives in ids and keys, never in names."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from streamlint.interp.state.budgets import short
from streamlint.trace import (
    WHOLE,
    BufferId,
    EventId,
    Evidence,
    GraphId,
    Region,
    StreamId,
)

if TYPE_CHECKING:
    from streamlint import ir
    from streamlint.models.schema import Lib

Plain: TypeAlias = "int | float | complex | str | bytes | bool | None"


class Flavor(Enum):
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
    OPAQUE = "result of an unresolved call"


@dataclass(frozen=True, slots=True)
class ConstV:
    value: Plain


@dataclass(frozen=True, slots=True)
class StreamV:
    """``lib`` is whose object it is (it decides methods and ``with``); the stream may be another's too."""

    id: StreamId
    lib: Lib | None = field(default=None, compare=False)
    raw: bool = field(default=False, compare=False)
    """A bare handle (``stream.cuda_stream``): who gets it launches on the stream, and waits for nothing."""


@dataclass(frozen=True, slots=True)
class EventV:
    id: EventId
    lib: Lib | None = None


@dataclass(frozen=True, slots=True)
class GraphV:
    """A graph; what was captured into it is ``Machine.recordings[id]``."""

    id: GraphId
    lib: Lib | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BufferV:
    """A view of a buffer."""

    id: BufferId
    region: Region = WHOLE
    flavor: Flavor = Flavor.TORCH


@dataclass(frozen=True, slots=True)
class DeviceV:
    """A device: ``"1"``, ``"cur"`` (device 0, and the one current at entry), ``"cpu"``, or ``"?key"``."""

    id: str
    exact: str | None = field(default=None, compare=False)
    """As the code says it: a number, or ``"cur"`` where nothing was selected; None if it is not known."""
    by: Evidence = field(default=Evidence.SHOWN, compare=False)
    """How it is known that it is the host, or that it is a GPU."""

    @property
    def is_host(self) -> bool:
        return self.id == "cpu"


@dataclass(frozen=True, slots=True)
class ApiV:
    """A name outside the analyzed tree, such as ``torch.cuda.Stream``; ``key`` is its dotted path."""

    path: str


@dataclass(frozen=True, slots=True)
class ModuleV:
    """A module of the analyzed tree."""

    name: str


@dataclass(frozen=True, slots=True)
class ClassV:
    decl: ir.ClassDecl


@dataclass(frozen=True, slots=True, eq=False)
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


@dataclass(frozen=True, slots=True)
class MethodV:
    """``receiver.name`` where the receiver belongs to a framework or is unknown."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class PartialV:
    func: Value
    args: tuple[Value, ...]
    kwargs: dict[str, Value]


@dataclass(frozen=True, slots=True)
class CallbackV:
    """``CFUNCTYPE(...)(function)``: an object through whose memory ``id`` C code calls the function."""

    id: BufferId
    func: Value = field(compare=False)
    address: bool = field(default=False, compare=False)
    """Only its address (``cast(callback, c_void_p).value``), which does not keep it alive."""


@dataclass(frozen=True, slots=True, eq=False)
class GeneratorV:
    """A generator that was called and not yet run; ``context`` if ``@contextmanager`` wraps it."""

    func: FuncV
    args: tuple[Value, ...]
    kwargs: dict[str, Value]
    context: bool


@dataclass(frozen=True, slots=True)
class TupleV:
    items: tuple[Value, ...]
    size: int = field(init=False, compare=False, repr=False)
    """Elements, with those of tuples in it."""

    def __post_init__(self) -> None:
        size = sum(item.size if isinstance(item, TupleV) else 1 for item in self.items)
        object.__setattr__(self, "size", size)


@dataclass(frozen=True, slots=True)
class HeapV:
    """A mutable object; its content is ``Machine.heap[id]``."""

    id: int


@dataclass(frozen=True, slots=True, eq=False)
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


class ContextKind(Enum):
    STREAM = "stream"
    DEVICE = "device"
    NULL = "nullcontext"
    STACK = "ExitStack"
    CAPTURE = "capture"
    SYNC_ON_EXIT = "synchronize on exit"
    CLOSING = "close on exit"


@dataclass(frozen=True, slots=True)
class QueryV:
    """The answer of ``event.query()`` or ``stream.query()``: true means complete.

    With ``status`` it is an error code, equal to ``cudaSuccess`` when complete; ``negated`` is the
    answer to "is it not complete?".
    """

    of: StreamV | EventV
    status: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SymV:
    """An unknown value with an identity: equal keys are the same value.

    ``holds`` are values that unresolved code received when it made this one, so that a later call
    on it may order or use them: ``pool = Pool(stream); pool.flush()``.
    """

    key: str
    holds: tuple[Value, ...] = ()
    computes: str = ""
    """The function of ``torch.nn.functional`` that it computes if it is called: a layer of ``torch.nn``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", short(self.key))


@dataclass(frozen=True, slots=True)
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


class Shape(Enum):
    INSTANCE = "instance"
    LIST = "list"
    DICT = "dict"
    SET = "set"


@dataclass(frozen=True, slots=True)
class Born:
    """How many streams, events, buffers and objects there were at a time."""

    streams: int
    events: int
    buffers: int
    objects: int


@dataclass(slots=True)
class HeapObject:
    """A mutable object.

    Instances keep attributes in ``attrs``; sequences their ``items``; dicts ``attrs`` by key text.
    ``open`` says that there are more elements than those listed (a comprehension over something
    of unknown length): then ``sample`` stands for an element not listed, and asking for a new key
    makes one like it.
    """

    shape: Shape
    cls: ir.ClassDecl | None = None
    attrs: dict[str, Value] = field(default_factory=dict)
    keys: dict[str, Value] = field(default_factory=dict)
    items: list[Value] = field(default_factory=list)
    open: bool = False
    sample: Value | None = None
    born: Born | None = None
    """What there was before the sample was made, and what other elements therefore share with it."""
    key: str = ""
    kind: str = ""
    """The class, where it is not the one that the shape stands for: ``deque``, ``tuple``, ``Queue``."""
    extra: dict[str, Value] = field(default_factory=dict)
    """Elements of an open container that were asked for by an unknown index, by its key."""


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """An open comparison that a path has come by: never ``!=`` and its kin, which are negations."""

    op: str
    left: Value
    right: Value

    @property
    def is_equality(self) -> bool:
        return self.op in ("==", "is")


_NOT = "not "


def negation(key: str) -> str:
    """The key of the opposite of an unknown condition."""
    return f"{_NOT}{key}"


def question(key: str) -> tuple[str, bool]:
    """What an unknown condition asks, and whether it is the opposite: ``not ready`` asks ``ready``."""
    negated = False
    while key.startswith(_NOT):
        key, negated = key[len(_NOT) :], not negated
    return key, negated


def comparison_key(op: str, left: str, right: str) -> str:
    """The key of a comparison, by those of its sides."""
    return f"({left} {op} {right})"


def key_of(value: Value) -> str:
    """A text that is equal for equal values: used to correlate conditions and symbolic indices.

    It is the same in each run: never an address.
    """
    match value:
        case ConstV(plain):
            return short(repr(plain))
        case SymV(key):
            return key
        case StreamV(number):
            return f"stream{number}"
        case EventV(number):
            return f"event{number}"
        case GraphV(number):
            return f"graph{number}"
        case CallbackV(number):
            return f"callback{number}"
        case BufferV(number, region):
            return short(f"buffer{number}{region}")
        case DeviceV(name):
            return f"device:{name}"
        case ApiV(path):
            return path
        case ModuleV(name):
            return name
        case ClassV(decl):
            return decl.qualname
        case HeapV(number):
            return f"object{number}"
        case TupleV(items):
            return short("(" + ",".join(key_of(item) for item in items) + ")")
        case QueryV(of):
            return f"query({key_of(of)})"
        case MethodV(receiver, name):
            return short(f"{key_of(receiver)}.{name}")
        case SliceV(lo, hi, step):
            return short(":".join("" if part is None else key_of(part) for part in (lo, hi, step)))
        case FuncV(function, closure, receiver):
            at, number = function.span, closure.number if closure is not None else 0
            made = f"{function.qualname}@{at.line}:{at.col}#{number}"
            return made if receiver is None else short(f"{key_of(receiver)}.{made}")
        case PartialV(func, args) | GeneratorV(func, args):
            # partial(f, f, f) thirty times: what is inside of one among the arguments tells nothing more.
            given = ("..." if isinstance(arg, (PartialV, GeneratorV)) else key_of(arg) for arg in args)
            return short(f"{key_of(func)}({','.join(given)})")
        case ContextV(kind, inner):
            return short(f"{kind.value}({key_of(inner)})")
