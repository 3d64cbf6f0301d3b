"""Effects of calls that heed no stream: network cards, threads of a library, waits that no document tells."""

from __future__ import annotations

from typing import TypeAlias

from streamlint.frozen import frozen
from streamlint.trace import Doubt

MESSAGES = frozenset(
    "send send_bytes sendall sendto sendmsg send_pyobj send_json send_string send_multipart "
    "send_serialized put put_nowait".split()
)
"""Methods of sockets, of connections and queues of ``multiprocessing``, and of sockets of ZeroMQ, by which a
message leaves the process. Another one that has opened memory of this one reads it when it is told:
streams and events order the work of one process
(https://docs.nvidia.com/cuda/cuda-programming-guide/04-special-topics/inter-process-communication.html)."""

OF_PROCESSES = "multiprocessing"
"""The package whose processes these are; PyTorch has one of that name, too."""
STARTS_PROCESS = "Process"
"""The class of ``multiprocessing``, and of its contexts, that takes along what its function gets."""
SIGNALS = frozenset({"set", "release", "notify", "notify_all", "wait"})
"""What tells other processes where an object of ``multiprocessing`` has it: events, semaphores, barriers."""


@frozen()
class Equals:
    """A parameter has a value: ``initialize_xfer("WRITE", ...)``."""

    parameter: str
    value: str


@frozen()
class Background:
    """Work of another thread or device that heeds no stream and starts at once.

    The result is what to wait for, unless the call itself ``waits``. It uses what ``bound`` was bound to.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    waits: bool = False
    after_default: bool = False
    """Before that, the host waits for the default stream."""
    only_gpu: bool = False
    """Memory that is not known to be the device's, or pinned, is none of its business here."""
    bound: str | None = None
    when: Equals | None = None
    """Only then."""
    at: str | None = None
    """The parameter that picks a part of the memory."""
    unless: str | None = None
    """``"parameter.option"``: with ``"1"`` bound to this option the call does not wait."""
    ends: str | None = None
    """The parameter that is asked whether the work is done, where that is not the result."""


@frozen()
class Fills:
    """Copies what the library itself has made into ``what``; the host waits for that, unless told not to.

    Without ``stream`` it takes a stream of its own, one for each device, which waits for no other.
    """

    what: str
    stream: str
    unless: str | None
    """A parameter that, when true, makes the call not wait; ``None``: it waits where no stream is given."""


@frozen()
class Lends:
    """Returns a list of memory of the library's own, complete, until the receiver takes it back."""


@frozen()
class TakesBack:
    """The library writes again what the receiver has lent, on a stream of its own, which waits for no other.

    ``unless``: an option that the receiver was made with. Where that is not known, it is only assumed.
    """

    unless: str


@frozen()
class Draws:
    """The library calls ``what`` whenever it wants more, and copies what that gives on a stream.

    With ``unless`` it does not copy, and uses the memory later.
    """

    what: str
    stream: str
    unless: str


@frozen()
class OrdersAll:
    """May order all streams with each other and with the host; no document says which."""

    why: Doubt = Doubt.ESCAPE


@frozen()
class Shares:
    """Returns what another process needs to open memory, or to wait for an event."""

    what: str


@frozen()
class OpensShared:
    """Returns memory that another process has made."""


AsideEffect: TypeAlias = Background | Fills | Lends | TakesBack | Draws | OrdersAll | Shares | OpensShared
