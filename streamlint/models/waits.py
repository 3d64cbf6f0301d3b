"""Effects that order: who records, who waits and who asks; a part of the union in ``models/schema.py``."""

from __future__ import annotations

from typing import TypeAlias

from streamlint.frozen import frozen


@frozen()
class StreamWaitsStream:
    stream: str = "self"
    other: str = "stream"
    """A stream, or a list of some."""


@frozen()
class StreamWaitsEvent:
    """``stream`` ``None``: the current stream."""

    event: str
    stream: str | None
    flags: str = "flags"
    """The parameter that may say that a capture makes a node of the wait."""


@frozen()
class StreamWaits:
    """``stream`` waits for ``what``, an event or a stream."""

    what: str
    stream: str = "self"


@frozen()
class Records:
    """``event`` missing or None: a new event is made and returned. ``stream`` missing: the current one."""

    event: str
    stream: str
    flags: str = "flags"


@frozen()
class HostWaitsStream:
    stream: str = "self"
    or_device: bool = False
    """A device stands for its current stream."""


@frozen()
class HostWaitsEvent:
    event: str = "self"
    unless_false: str | None = None
    """A parameter that, when given and false, makes the host not wait."""


@frozen()
class HostWaitsDevice:
    device: str = "device"
    every: bool = False
    """It waits for all devices."""


@frozen()
class HostWaitsMemory:
    """The host waits for what writes the memory in ``what``, whatever stream that is on."""

    what: str


@frozen()
class Queries:
    """Returns whether ``of`` is complete: true is a synchronization, an ignored answer is not."""

    of: str = "self"
    status: bool = False
    """The answer is a status code: 0 is complete."""
    told_by: tuple[str, str] | None = None
    """The answer is a text: the first one says that it is complete, the second one that it is not yet."""


@frozen()
class SyncOnExit:
    """Returns a context manager that synchronizes ``stream`` when it is left."""

    stream: str = "self"


WaitEffect: TypeAlias = (
    StreamWaitsStream
    | StreamWaitsEvent
    | StreamWaits
    | Records
    | HostWaitsStream
    | HostWaitsEvent
    | HostWaitsDevice
    | HostWaitsMemory
    | Queries
    | SyncOnExit
)
