"""What a framework's call means to ordering, as data.

A row (``models/table.py``) names the call, its parameters and its effects; effects refer to parameters
by name. ``self`` is the receiver of a method. The interpreter carries effects out from
``interp/library/effects.py`` on; each kind of this closed union is matched exhaustively where it belongs.
"""

from __future__ import annotations

from typing import TypeAlias

from streamlint.frozen import frozen
from streamlint.models.aside import (
    AsideEffect,
    Background,
    Draws,
    Fills,
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
from streamlint.models.computing import Computes, Copies, HostUses, Launches, Uses, WorkEffect
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
from streamlint.models.memory import (
    Adopts,
    Allocates,
    Frees,
    GlobalMemory,
    KeepsAlive,
    MemoryEffect,
    Pins,
    Unpins,
    Views,
)
from streamlint.models.objects import Binds, ChoosesAllocator, Makes, ObjectEffect
from streamlint.models.streams import (
    CurrentStream,
    DefaultStream,
    DeviceEffect,
    EnterDevice,
    EnterStream,
    ForeignStream,
    NewDevice,
    NewEvent,
    NewStream,
    RestoresDevice,
    SelectsDevice,
    StreamEffect,
)
from streamlint.models.table import Api, Framework, Lib, Role
from streamlint.models.waits import (
    HostWaitsDevice,
    HostWaitsEvent,
    HostWaitsMemory,
    HostWaitsStream,
    Queries,
    Records,
    StreamWaits,
    StreamWaitsEvent,
    StreamWaitsStream,
    SyncOnExit,
    WaitEffect,
)

__all__ = [
    "Adopts",
    "Allocates",
    "Api",
    "AsideEffect",
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
    "Copies",
    "CurrentStream",
    "DefaultStream",
    "Defers",
    "DeviceEffect",
    "Draws",
    "EnterCapture",
    "EnterDevice",
    "EnterStream",
    "Fills",
    "ForeignStream",
    "Framework",
    "Frees",
    "GivesWritten",
    "GlobalMemory",
    "GraphEffect",
    "GraphsCallables",
    "GroupEnds",
    "GroupStarts",
    "HostUses",
    "HostWaitsDevice",
    "HostWaitsEvent",
    "HostWaitsMemory",
    "HostWaitsStream",
    "InstantiatesGraph",
    "JoinsCaptures",
    "KeepsAlive",
    "Launches",
    "LaunchesGraph",
    "Lends",
    "Lib",
    "Makes",
    "MemoryEffect",
    "NewDevice",
    "NewEvent",
    "NewGraph",
    "NewStream",
    "ObjectEffect",
    "OpensShared",
    "OrdersAll",
    "Pins",
    "Queries",
    "Records",
    "RestoresDevice",
    "Role",
    "SelectsDevice",
    "Shares",
    "SplitsCapture",
    "StreamEffect",
    "StreamWaits",
    "StreamWaitsEvent",
    "StreamWaitsStream",
    "SyncOnExit",
    "TakesBack",
    "Unpins",
    "Uses",
    "Views",
    "WaitEffect",
    "WaitsForResult",
    "WorkEffect",
]


@frozen()
class Struct:
    """Returns a record whose fields the program sets (``cudaMemcpy3DParms()``)."""


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


CallEffect: TypeAlias = (
    Struct | HostCallback | OrdersNothing | ReadsTimes | Destroys | Returns | Succeeds | Pure
)
Effect: TypeAlias = (
    StreamEffect
    | DeviceEffect
    | WaitEffect
    | WorkEffect
    | MemoryEffect
    | GraphEffect
    | CommunicationEffect
    | AsideEffect
    | ObjectEffect
    | CallEffect
)
