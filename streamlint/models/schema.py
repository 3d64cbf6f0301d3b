"""What a framework's call means to ordering, as data.

A row (``models/table.py``) names the call, its parameters and its effects; effects refer to parameters
by name. ``self`` is the receiver of a method. The interpreter carries effects out in
``interp/library/effects.py``, which matches this closed union exhaustively.
"""

from __future__ import annotations

from typing import TypeAlias

from streamlint.frozen import frozen
from streamlint.models.aside import (
    AsideEffect,
    Background,
    Draws,
    Fills,
    HostWaitsMemory,
    Lends,
    OpensShared,
    OrdersAll,
    Shares,
    TakesBack,
)
from streamlint.models.communication import (
    CallsAll,
    Coalesces,
    Communicates,
    CommunicationEffect,
    Defers,
    GivesWritten,
    GroupEnds,
    GroupStarts,
    WaitsForResult,
)
from streamlint.models.computing import Computes, Launches
from streamlint.models.graphs import (
    CaptureEnds,
    CaptureStarts,
    EnterCapture,
    GraphEffect,
    GraphsCallables,
    InstantiatesGraph,
    JoinsCaptures,
    LaunchesGraph,
    NewGraph,
    SplitsCapture,
)
from streamlint.models.objects import Binds, ChoosesAllocator, Makes, ObjectEffect
from streamlint.models.table import Api, Framework, Lib, Role
from streamlint.models.waits import (
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsStream,
    Queries,
    Records,
    StreamWaits,
    StreamWaitsEvent,
    StreamWaitsStream,
)
from streamlint.trace import Space, StreamKind

__all__ = [
    "Api",
    "Background",
    "Binds",
    "CallsAll",
    "CaptureEnds",
    "CaptureStarts",
    "ChoosesAllocator",
    "Coalesces",
    "Communicates",
    "CommunicationEffect",
    "Computes",
    "Defers",
    "Draws",
    "EnterCapture",
    "Fills",
    "Framework",
    "GivesWritten",
    "GraphEffect",
    "GraphsCallables",
    "GroupEnds",
    "GroupStarts",
    "HostWaitsDevice",
    "HostWaitsEvent",
    "HostWaitsMemory",
    "HostWaitsStream",
    "InstantiatesGraph",
    "JoinsCaptures",
    "Launches",
    "LaunchesGraph",
    "Lends",
    "Lib",
    "Makes",
    "NewGraph",
    "ObjectEffect",
    "OpensShared",
    "OrdersAll",
    "Queries",
    "Records",
    "Role",
    "Shares",
    "SplitsCapture",
    "StreamWaits",
    "StreamWaitsEvent",
    "StreamWaitsStream",
    "TakesBack",
    "WaitsForResult",
]


@frozen()
class NewStream:
    """Returns a new stream; the parameter ``flag``, or ``"options.nonblocking"``, decides of which kind."""

    kind: StreamKind
    flag: str | None = None
    flag_kind: StreamKind = StreamKind.NON_BLOCKING
    unset: StreamKind | None = None
    """The kind when the flag is not given; ``kind`` if None."""
    null: str | None = None
    """A parameter that, when true, asks for the legacy default stream instead of a new one."""
    wraps: str | None = None
    """A parameter that, when given, is the stream to wrap: anything with ``__cuda_stream__``."""


@frozen()
class CurrentStream:
    """Returns the current stream of the device named by ``device``."""

    device: str = "device"


@frozen()
class DefaultStream:
    kind: StreamKind = StreamKind.LEGACY


@frozen()
class ForeignStream:
    """Wraps a raw handle; the stream behind it is the one of ``handle`` if that is known."""

    handle: str
    current_of: Lib | None = None
    """A device, or nothing, in its place stands for the current stream of this library."""
    null_is_new: bool = False
    """Handle 0 gives a new non-blocking stream, and not the legacy default stream."""


@frozen()
class NewEvent:
    """Returns a new event; ``timing`` and ``untimed`` name parameters that give it time, or take it away."""

    timing: str | None = None
    timed: bool = True
    """Whether times can be read from it where ``timing`` is not given."""
    untimed: str | None = None
    """A flag, or flags with ``cudaEventDisableTiming``."""


@frozen()
class NewDevice:
    """Returns an object that stands for a device; ``None`` or no number is the current one."""

    number: str = "device"


@frozen()
class EnterStream:
    """Returns a context manager (or, with ``now``, selects at once) that makes ``stream`` current."""

    stream: str = "stream"
    now: bool = False
    forks: str | None = None
    """A parameter: where it is true, ``stream`` waits for the stream that was current."""
    forks_unset: bool = False
    """Whether it is true where it is not given."""
    joins: str | None = None
    """A parameter: where it is true, the stream that was current waits for ``stream`` in the end."""


@frozen()
class EnterDevice:
    device: str = "device"
    now: bool = False


@frozen()
class SyncOnExit:
    """Returns a context manager that synchronizes ``stream`` when it is left."""

    stream: str = "self"


@frozen()
class Copies:
    """A copy; spaces decide whether the host waits.

    ``"p.srcPtr/srcArray"``: the first of these fields of ``p`` that is set.
    """

    dst: str
    src: str
    stream: str | None = "stream"
    """``"default"``: the default stream, where that is not the current one."""
    count: str | None = None
    blocking: bool = False
    unless: str | None = None
    """A parameter that, when true, makes the copy not block (``non_blocking``)."""
    unless_false: str | None = None
    """A parameter that, when given and false, makes the copy not block (``blocking=False``)."""
    makes: Space | None = None
    """Where the destination is allocated if ``dst`` is not given; the copy then returns it. Where ``src`` is
    not given either, nothing is copied."""
    pinned: str | None = None
    """A parameter that, when true, asks for pinned memory, if ``device`` names the host. Without ``device``
    the copy stays where the source is."""
    placed: bool = False
    """What it makes is on the host where ``device`` names that: ``wp.array(rows, device="cpu")``."""
    view_on_host: bool = False
    """What is on the host already is not copied (``wp.array.numpy()``)."""
    returns: str | None = None


@frozen()
class Uses:
    """Device work on ``stream`` (``None`` and ``"default"`` as in ``Copies``) on the named parameters."""

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
    code: str = "code"
    bound: bool = False
    """It also uses what the receiver was bound to."""
    host_waits: bool = False
    """The host waits for it where the memory is pinned or managed (``cudaMemset``)."""
    grouped: bool = False
    """Between ``GroupStarts`` and ``GroupEnds`` it is put off."""


@frozen()
class HostUses:
    """The host itself touches the named parameters before the call returns."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@frozen()
class Allocates:
    space: Space
    stream: str | None = None
    """Stream that orders the allocation, if any: a parameter name, or ``"current"``."""
    address: bool = False
    """The call gives an address (or an object that stands for one), not an array."""
    size: str = "size"
    """The parameter that gives the bytes."""
    filled: bool = False
    """Work on the current stream fills it."""
    pinned: str | None = None
    """A parameter that, when true, asks for pinned host memory."""
    pool: str | None = None
    """The pool that hands the block out again as soon as nothing refers to it, whatever still uses it."""
    lib: Lib | None = None
    """Whose array it is, if not the library's own."""
    queued: bool = False
    """The allocation itself is work of the stream: ``cudaMallocAsync``."""
    of: str | None = None
    """An option that the pool was made with: the allocator whose memory it gives."""


@frozen()
class Frees:
    """``device_wide``: waits for the whole device (observed). ``later``: only says on which stream.

    Without a stream and without ``device_wide`` it waits for nothing.
    """

    buffer: str
    stream: str | None = None
    device_wide: bool = False
    later: bool = False


@frozen()
class Pins:
    """Page-locks memory that exists (``cudaHostRegister``)."""

    buffer: str


@frozen()
class Unpins:
    """Ends ``Pins``; was seen to wait for the whole device (not documented)."""

    buffer: str


@frozen()
class GlobalMemory:
    """Returns the address of a variable of a module: the same memory each time that it is asked for."""

    module: tuple[str, ...]
    """The parameters that tell modules apart."""
    name: str


@frozen()
class Struct:
    """Returns a record whose fields the program sets (``cudaMemcpy3DParms()``)."""


@frozen()
class KeepsAlive:
    buffer: str = "self"
    stream: str = "stream"


@frozen()
class HostCallback:
    stream: str
    function: str
    data: str | None = None
    deprecated: bool = False
    status: bool = False
    """The function takes stream, status and data."""


@frozen()
class OrdersNothing:
    """A CUDA call without effect on order."""


@frozen()
class ReadsTimes:
    """Returns the time between two events, which must both be complete."""

    start: str
    end: str


@frozen()
class Destroys:
    what: str


@frozen()
class SelectsDevice:
    device: str = "device"
    push: bool = False
    """What was selected before comes back (``cuCtxPopCurrent``)."""


@frozen()
class RestoresDevice:
    """The device that the last push replaced is current again."""


@frozen()
class Views:
    """Returns another view of the same memory."""

    of: str
    array: bool = False
    """The view is a host array."""
    lib: Lib | None = None
    """Whose array the view is, if not that of the library of ``of``."""
    address: bool = False
    """It is an address, which anyone may use."""


@frozen()
class Adopts:
    """Returns memory of another library as an object of this one.

    The giver's stream is ordered before that of the parameter ``stream``, if one is given that is not -1.
    """

    of: str
    stream: str | None = None


@frozen()
class Returns:
    """Returns parameter ``what`` unchanged (wrappers such as ``ctypes.cast``)."""

    what: str


@frozen()
class Succeeds:
    """Returns what says that the call worked, as it does: ``if not context.execute_async_v3(s): raise``."""

    told_by: bool | int = True


@frozen()
class Pure:
    """No CUDA work, no access to memory: shapes, predicates. ``own``: each receiver's answers are its own."""

    own: bool = False


Effect: TypeAlias = (
    NewStream
    | CurrentStream
    | DefaultStream
    | ForeignStream
    | NewEvent
    | NewDevice
    | ObjectEffect
    | EnterStream
    | EnterDevice
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
    | Computes
    | CommunicationEffect
    | Launches
    | AsideEffect
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
    | GraphEffect
    | Views
    | Adopts
    | Returns
    | Succeeds
    | Pure
)
