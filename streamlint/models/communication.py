"""Effects of communication between processes: a part of the union in ``models/schema.py``."""

from __future__ import annotations

from typing import TypeAlias

from streamlint.frozen import frozen


@frozen()
class Communicates:
    """A collective of ``group``; with ``flag`` true it runs on the group's own stream and returns a handle.

    The handle is an event, recorded after the collective.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    group: str | None = "group"
    """None: all calls of the library use one stream of a device."""
    flag: str | None = "async_op"
    """None: there is no such parameter, and ``handle`` says what the call always does."""
    handle: bool = True
    makes: str | None = None
    """It writes memory of its own, like this operand, and gives that: ``WaitsForResult`` waits for it."""
    after: str | None = None
    """A parameter that may give an event: what runs aside starts after that, not after the current stream."""
    gives: tuple[str | None, ...] = ()
    """It gives a tuple: memory of its own, like these operands (None: no memory), and the handle last."""
    source: str | None = None
    """A parameter that says which rank sends: there it only reads what others have updated."""
    sized_by: tuple[str, ...] = ()
    """Parameters that say how much is received. Without all of them the host waits until the stream tells,
    when all that was queued there before is done."""


@frozen()
class WaitsForResult:
    """The current stream waits for the collective that has made the memory ``result``, and gets that back."""

    result: str


@frozen()
class Coalesces:
    """Returns a context manager: collectives of ``group`` in it are one, on the group's own stream.

    What it gives is the handle of all, recorded when the block is left. Without ``flag`` the current stream
    then waits for it.
    """

    group: str
    flag: str


@frozen()
class GivesWritten:
    """Returns a list of the memory that the collective of this handle writes, and waits for nothing."""


@frozen()
class Defers:
    """A call of the function ``func`` with the other arguments, which another one makes: see ``CallsAll``."""

    func: str


@frozen()
class CallsAll:
    """Makes all calls in the list ``calls``; each gives a handle that stands for all of them."""

    calls: str


@frozen()
class GroupStarts:
    """What is called from here on is put off until the group ends: see ``Uses.grouped``."""

    block: bool = False
    """Whether it returns a context manager, which starts the group and ends it."""


@frozen()
class GroupEnds:
    """Queues what was put off."""


CommunicationEffect: TypeAlias = (
    Communicates | WaitsForResult | Coalesces | GivesWritten | Defers | CallsAll | GroupStarts | GroupEnds
)
