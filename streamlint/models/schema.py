"""What a framework's call means to ordering, as data.

A row names the call, its parameters and its effects; effects refer to parameters by name. ``self``
is the receiver of a method. The interpreter carries effects out in ``interp/effects.py``, which
matches this closed union exhaustively.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from streamlint.trace import Doubt, Space, StreamKind


class Lib(Enum):
    """Libraries that keep a current stream (or name streams explicitly) on their own."""

    TORCH = "torch"
    CUPY = "cupy"
    NUMBA = "numba"
    RUNTIME = "cuda runtime"
    DRIVER = "cuda driver"
    CORE = "cuda.core"
    DISTRIBUTED = "torch.distributed"


class Role(Enum):
    """What kind of object a method belongs to."""

    STREAM = "stream"
    EVENT = "event"
    BUFFER = "buffer"
    DEVICE = "device"


# ----------------------------------------------------------------------------- effects


@dataclass(frozen=True, slots=True)
class NewStream:
    """Returns a new stream; ``flag`` names a parameter that decides whether it is blocking.

    ``"options.nonblocking"`` is a field of the parameter ``options``.
    """

    kind: StreamKind
    flag: str | None = None
    flag_kind: StreamKind = StreamKind.NON_BLOCKING
    unset: StreamKind | None = None
    """The kind when the flag is not given; ``kind`` if None."""
    null: str | None = None
    """A parameter that, when true, asks for the legacy default stream instead of a new one."""
    wraps: str | None = None
    """A parameter that, when given, is the stream: anything with ``__cuda_stream__``."""


@dataclass(frozen=True, slots=True)
class CurrentStream:
    """Returns the current stream of the device named by ``device``."""

    device: str = "device"


@dataclass(frozen=True, slots=True)
class DefaultStream:
    kind: StreamKind = StreamKind.LEGACY


@dataclass(frozen=True, slots=True)
class ForeignStream:
    """Wraps a raw handle; the stream behind it is the one of ``handle`` if that is known."""

    handle: str


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Returns a new event; ``timing`` and ``untimed`` name parameters that give it time, or take it away."""

    timing: str | None = None
    timed: bool = True
    """Whether times can be read from it where ``timing`` is not given."""
    untimed: str | None = None
    """A flag, or flags with ``cudaEventDisableTiming``."""


@dataclass(frozen=True, slots=True)
class NewDevice:
    """Returns an object that stands for a device; ``None`` or no number is the current one."""

    number: str = "device"


@dataclass(frozen=True, slots=True)
class Makes:
    """Returns an object of the library that only its own rows know.

    Calling it is the row ``path``, its methods are the rows ``path.name``. It keeps the parameters
    named in ``keeps``, which those rows find among their own.
    """

    path: str
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnterStream:
    """Returns a context manager (or, with ``now``, selects at once) that makes ``stream`` current."""

    stream: str = "stream"
    now: bool = False


@dataclass(frozen=True, slots=True)
class EnterDevice:
    device: str = "device"
    now: bool = False


@dataclass(frozen=True, slots=True)
class EnterCapture:
    stream: str = "stream"


@dataclass(frozen=True, slots=True)
class SyncOnExit:
    """Returns a context manager that synchronizes ``stream`` when it is left."""

    stream: str = "self"


@dataclass(frozen=True, slots=True)
class StreamWaitsStream:
    stream: str = "self"
    other: str = "stream"


@dataclass(frozen=True, slots=True)
class StreamWaitsEvent:
    """``stream`` ``None``: the current stream."""

    event: str
    stream: str | None
    flags: str = "flags"
    """The parameter that may say that a capture makes a node of the wait."""


@dataclass(frozen=True, slots=True)
class StreamWaits:
    """``stream`` waits for ``what``, an event or a stream."""

    what: str
    stream: str = "self"


@dataclass(frozen=True, slots=True)
class Records:
    """``event`` missing or None: a new event is made and returned. ``stream`` missing: the current one."""

    event: str
    stream: str
    flags: str = "flags"


@dataclass(frozen=True, slots=True)
class HostWaitsStream:
    stream: str = "self"


@dataclass(frozen=True, slots=True)
class HostWaitsEvent:
    event: str = "self"


@dataclass(frozen=True, slots=True)
class HostWaitsDevice:
    device: str = "device"


@dataclass(frozen=True, slots=True)
class Queries:
    """Returns whether ``of`` is complete: true is a synchronization, an ignored answer is not."""

    of: str = "self"
    status: bool = False
    """The answer is a status code: 0 is complete."""


@dataclass(frozen=True, slots=True)
class Copies:
    """A copy; spaces decide whether the host waits.

    ``"p.srcPtr/srcArray"``: the first of these fields of ``p`` that is set.
    """

    dst: str
    src: str
    stream: str | None = "stream"
    count: str | None = None
    blocking: bool = False
    unless: str | None = None
    """A parameter that, when true, makes the copy not block (``non_blocking``)."""
    unless_false: str | None = None
    """A parameter that, when given and false, makes the copy not block (``blocking=False``)."""
    makes: Space | None = None
    """Where the destination is allocated if ``dst`` is not given; the copy then returns it."""
    documented: bool = False
    """Documented as asynchronous even where it was seen to block (Numba, into pageable memory)."""
    returns: str | None = None


@dataclass(frozen=True, slots=True)
class Uses:
    """Device work on ``stream`` (``None``: the current one) that touches the named parameters."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    stream: str | None = None
    count: str = "count"
    """How many bytes, where only a part of an allocation is written."""
    packed: tuple[str, ...] = ()
    """Parameters that hold kernel arguments: whatever buffers are in them are read and written,
    unless the parameters ``code`` and ``name`` (or those that ``kernel`` keeps) show C++ source
    that says which are only read."""
    kernel: str = "kernel"
    host_waits: bool = False
    """The host waits for it where the memory is pinned or managed (``cudaMemset``)."""


@dataclass(frozen=True, slots=True)
class Communicates:
    """A collective of ``group``; with ``flag`` true it runs on the group's own stream and returns a handle.

    ``flag`` None: it always does. The handle is an event, recorded after the collective.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    group: str = "group"
    flag: str | None = "async_op"


@dataclass(frozen=True, slots=True)
class OrdersAll:
    """May order all streams with each other and with the host; no document says which."""

    why: Doubt = Doubt.ESCAPE


@dataclass(frozen=True, slots=True)
class HostUses:
    """The host itself touches the named parameters before the call returns."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocates:
    space: Space
    stream: str | None = None
    """Stream that orders the allocation, if any: a parameter name, or ``"current"``."""
    address: bool = False
    """The call gives an address (or an object that stands for one), not an array."""
    size: str = "size"
    """The parameter that gives the bytes."""
    pool: str | None = None
    """The pool that hands the block out again as soon as nothing refers to it, whatever still uses it."""


@dataclass(frozen=True, slots=True)
class Frees:
    """``device_wide``: blocks until the whole device is idle (observed, not documented)."""

    buffer: str
    stream: str | None = None
    device_wide: bool = False


@dataclass(frozen=True, slots=True)
class Pins:
    """Page-locks memory that exists (``cudaHostRegister``)."""

    buffer: str


@dataclass(frozen=True, slots=True)
class Unpins:
    """Ends ``Pins``; was seen to wait for the whole device (not documented)."""

    buffer: str


@dataclass(frozen=True, slots=True)
class GlobalMemory:
    """Returns the address of a variable of a module: the same memory each time that it is asked for."""

    module: tuple[str, ...]
    """The parameters that tell modules apart."""
    name: str


@dataclass(frozen=True, slots=True)
class Struct:
    """Returns a record whose fields the program sets (``cudaMemcpy3DParms()``)."""


@dataclass(frozen=True, slots=True)
class KeepsAlive:
    buffer: str = "self"
    stream: str = "stream"


@dataclass(frozen=True, slots=True)
class HostCallback:
    stream: str
    function: str
    data: str | None = None
    deprecated: bool = False
    status: bool = False
    """The function takes stream, status and data."""


@dataclass(frozen=True, slots=True)
class OrdersNothing:
    """A CUDA call without effect on order."""


@dataclass(frozen=True, slots=True)
class ReadsTimes:
    """Returns the time between two events, which must both be complete."""

    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Destroys:
    what: str


@dataclass(frozen=True, slots=True)
class SelectsDevice:
    device: str = "device"
    push: bool = False
    """What was selected before comes back (``cuCtxPopCurrent``)."""


@dataclass(frozen=True, slots=True)
class RestoresDevice:
    """The device that the last push replaced is current again."""


@dataclass(frozen=True, slots=True)
class CaptureStarts:
    stream: str = "self"


@dataclass(frozen=True, slots=True)
class CaptureEnds:
    stream: str = "self"


@dataclass(frozen=True, slots=True)
class Views:
    """Returns another view of the same memory."""

    of: str
    array: bool = False
    """The view is a host array."""


@dataclass(frozen=True, slots=True)
class Returns:
    """Returns parameter ``what`` unchanged (wrappers such as ``ctypes.cast``)."""

    what: str


@dataclass(frozen=True, slots=True)
class Pure:
    """No CUDA work and no access to memory: shapes, sizes, predicates."""


Effect: TypeAlias = (
    NewStream
    | CurrentStream
    | DefaultStream
    | ForeignStream
    | NewEvent
    | NewDevice
    | Makes
    | EnterStream
    | EnterDevice
    | EnterCapture
    | SyncOnExit
    | StreamWaitsStream
    | StreamWaitsEvent
    | StreamWaits
    | Records
    | HostWaitsStream
    | HostWaitsEvent
    | HostWaitsDevice
    | Queries
    | Copies
    | Uses
    | Communicates
    | OrdersAll
    | HostUses
    | Allocates
    | Frees
    | Pins
    | Unpins
    | GlobalMemory
    | Struct
    | KeepsAlive
    | HostCallback
    | OrdersNothing
    | ReadsTimes
    | Destroys
    | SelectsDevice
    | RestoresDevice
    | CaptureStarts
    | CaptureEnds
    | Views
    | Returns
    | Pure
)


@dataclass(frozen=True, slots=True)
class Api:
    """One call. ``params`` as in its signature, without defaults: ``"dst src count kind stream *args"``.

    Names and order are those of the library, so that calls by keyword are understood;
    ``tests/test_rows.py`` compares them with what is installed. A call returns what its last
    returning effect says. With ``status`` the result comes as the tuple ``(error, value)`` of
    cuda-python.
    """

    name: str
    params: str
    effects: tuple[Effect, ...]
    status: bool = False
    telling: tuple[str, ...] | None = None
    """If not None, a method name that shows what an unknown receiver is: always if empty, else when
    one of these keywords is given (``x.copy_to(y, stream=s)``)."""
    attribute: bool = False
    """Read as an attribute, not called: ``device.default_stream``."""
    further: int = 0
    """With ``status``: how many values come after the first one, as the pitch does in ``cudaMallocPitch``."""
    older: tuple[str, ...] = ()
    """``params`` in other releases; the one with as many parameters as the call has arguments is taken."""

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters that stand in place; ``rest`` takes what follows them."""
        return _in_place(self.params)

    def names_of(self, count: int) -> tuple[str, ...]:
        """The parameters that ``count`` arguments in place stand for."""
        for params in (self.params, *self.older):
            if len(_in_place(params)) == count:
                return _in_place(params)
        return self.names

    @property
    def rest(self) -> str | None:
        return next((name[1:] for name in self.params.split() if name.startswith("*")), None)


def _in_place(params: str) -> tuple[str, ...]:
    return tuple(name for name in params.split() if not name.startswith("*"))


@dataclass(frozen=True, slots=True)
class Framework:
    """One library: its modules, functions and the methods of its streams, events and buffers."""

    lib: Lib
    url: str
    """Documentation that the rows rest on."""
    modules: tuple[str, ...]
    """Import paths that hold the functions; the first is canonical."""
    functions: tuple[Api, ...]
    stream_methods: tuple[Api, ...] = ()
    event_methods: tuple[Api, ...] = ()
    buffer_methods: tuple[Api, ...] = ()
    device_methods: tuple[Api, ...] = ()
    streams: tuple[tuple[str, StreamKind], ...] = ()
    """Names that are default streams: ``Stream.null``."""
    raw_handles: tuple[str, ...] = ()
    """Attributes of a stream that give its raw handle."""
