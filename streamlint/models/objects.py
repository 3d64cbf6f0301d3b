"""Effects on objects that keep what their later calls use: a part of the union in ``models/schema.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen

if TYPE_CHECKING:
    from streamlint.trace import Mode


@frozen()
class Makes:
    """Returns an object of the library that only its own rows know.

    Calling it is the row ``path``, its methods are the rows ``path.name``. It keeps the parameters
    named in ``keeps``, which those rows find among their own.
    """

    path: str
    keeps: tuple[str, ...] = ()
    alone: bool = False
    """It is another one each time, has the methods that their names show, and what it keeps as attributes."""
    told_apart: bool = False
    """It is another one each time, which its rows find as ``self``: two pools have no block in common."""


@frozen()
class Binds:
    """The receiver keeps an address under a name, for its later work (``set_tensor_address``).

    Without a name, an event that it records behind each such work (``set_input_consumed_event``).
    """

    name: str | None
    address: str
    mode: Mode | None = None
    """What that work does with the memory, if it is known."""


@frozen()
class ChoosesAllocator:
    """Returns a context manager (or, with ``now``, chooses at once) in which arrays have its memory."""

    allocator: str = "allocator"
    now: bool = False


ObjectEffect: TypeAlias = Makes | Binds | ChoosesAllocator
