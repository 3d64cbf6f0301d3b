"""Effects on memory: who makes it, who gives it back, and what else stands for it.

A part of the union in ``models/schema.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.models.table import Lib
    from streamlint.trace import Space


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
    mapped: bool = False
    """Memory of the host that kernels use in place."""


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
    block: bool = False
    """It gives a context, and ends when its block is left: ``with cuda.pinned(rows):`` of Numba."""


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
class KeepsAlive:
    buffer: str = "self"
    stream: str = "stream"


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


MemoryEffect: TypeAlias = Allocates | Frees | Pins | Unpins | GlobalMemory | KeepsAlive | Views | Adopts
