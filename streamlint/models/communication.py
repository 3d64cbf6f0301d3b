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
    group: str = "group"
    flag: str | None = "async_op"
    """None: there is no such parameter, and ``handle`` says what the call always does."""
    handle: bool = True


@frozen()
class Defers:
    """A call of the function ``func`` with the other arguments, which another one makes: see ``CallsAll``."""

    func: str


@frozen()
class CallsAll:
    """Makes all calls in the list ``calls``; each gives a handle that stands for all of them."""

    calls: str


CommunicationEffect: TypeAlias = Communicates | Defers | CallsAll
