"""Effects that make streams, events and devices, or say which is current.

Parts of the union in ``models/schema.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen
from streamlint.trace import StreamKind

if TYPE_CHECKING:
    from streamlint.models.table import Lib


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
    """A parameter that, when given, is the stream to wrap: a handle, or anything with ``__cuda_stream__``."""


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
    lib: Lib | None = None
    """Whose stream the wrapper is, if not of the library that makes it: ``wp.stream_to_torch(s)``."""


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
class EnterDevice:
    device: str = "device"
    now: bool = False


@frozen()
class SelectsDevice:
    device: str = "device"
    push: bool = False
    """What was selected before comes back (``cuCtxPopCurrent``)."""


@frozen()
class RestoresDevice:
    """The device that the last push replaced is current again."""


StreamEffect: TypeAlias = NewStream | CurrentStream | DefaultStream | ForeignStream | EnterStream | NewEvent
DeviceEffect: TypeAlias = NewDevice | EnterDevice | SelectsDevice | RestoresDevice
