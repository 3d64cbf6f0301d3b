"""What the tracers see, in compact form: most of it is dropped before a trace is made.

A training loop queues millions of operations. Almost all of them touch memory that only one stream
ever uses, and cannot take part in a conflict. So an event costs little until ``translate`` has
decided that it matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from streamlint.trace import AllocKind

if TYPE_CHECKING:
    from streamlint.trace import (
        BufferId,
        DeviceId,
        Doubt,
        EventId,
        FreeKind,
        HostEffect,
        LaneId,
        Mode,
        Op,
        Space,
        StreamId,
    )

Place: TypeAlias = tuple[CodeType, int] | None
"""A code object and the offset of an instruction in it; None where no code of the user was running."""

Places: TypeAlias = tuple[Place, ...]


class Strides(NamedTuple):
    """Which bytes of each ``pitch`` a view has that is not dense: ``width`` of them from ``column`` on."""

    pitch: int
    column: int
    width: int


@dataclass(slots=True, eq=False)
class Block:
    """An allocation, from its birth to its death: a new one at the same address is another block.

    ``stream`` is the stream that orders the allocation and owns the memory, if one does.
    """

    id: BufferId
    start: int
    size: int
    space: Space
    device: DeviceId
    stream: StreamId | None
    place: Place
    name: str = "allocation"
    """The call that allocated it."""
    kind: AllocKind = AllocKind.CACHED
    pool: str | None = None
    """The pool of host memory that it goes back to when it is dropped."""
    pool_awaits: str = ""
    """The library whose own copies the pool waits for."""
    user: StreamId | None = None
    """The stream that orders the allocation, or else the first that used it."""
    alive: bool = True
    death: tuple[Place, FreeKind, StreamId | None, str] | None = None
    """Where, how, in order of which stream and by which call it was given back."""
    by_call: bool = False
    """Whether that was an explicit call."""


Life: TypeAlias = tuple[int, Block, bool]
"""That a block was born (true) or died, and how many other events there were before.

Of four events of a training loop three are these, and nearly all of them never matter."""


class Touch(NamedTuple):
    """An access to the bytes ``lo <= i < hi`` of a block."""

    block: Block
    mode: Mode
    lo: int
    hi: int
    strides: Strides | None = None
    operand: int = -1
    """The position of the argument, to find its name in the source; negative for a result."""
    doubts: frozenset[Doubt] = frozenset()


Touched: TypeAlias = "tuple[Block, Mode, int, int, Strides | None, int, frozenset[Doubt]]"
"""A ``Touch`` without its name: that of each tensor of each operator is made in a third of the time."""


@dataclass(slots=True, eq=False)
class Work:
    """Device work; ``touches`` grows while the operator runs, because results exist only afterwards."""

    place: Place
    stream: StreamId
    name: str
    touches: list[Touched]
    completes: EventId | None = None
    """Of a collective: the event of the handle that the program waits for."""


@dataclass(slots=True, eq=False)
class Move:
    """A copy that the host takes part in."""

    place: Place
    stream: StreamId
    name: str
    source: Touch | None
    target: Touch | None
    effect: HostEffect
    library: str = ""


@dataclass(slots=True, eq=False)
class HostTouch:
    place: Place
    name: str
    touches: list[Touched]


@dataclass(slots=True, eq=False)
class Body:
    """What a host function does in the order of its stream; it grows when the function runs."""

    lane: LaneId
    queued: EventId | None
    """Recorded behind it; what a graph calls at each launch has none."""
    touches: list[HostTouch] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Keep:
    """The allocator keeps ``block`` back until the work now on ``stream`` is done."""

    place: Place
    block: Block
    stream: StreamId


@dataclass(slots=True, eq=False)
class Point:
    """An op that needs no more than a site: a record, a wait, a synchronization."""

    place: Place
    op: Op
    answer: bool = False
    """The synchronization is the answer of a query: it orders nothing if the program ignores it."""


@dataclass(slots=True, eq=False)
class Half:
    """Half a window. ``before`` is what was known where it begins."""

    before: tuple[Point | Keep, ...] = ()
    entries: list[Entry] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)


Entry: TypeAlias = Work | Move | HostTouch | Body | Keep | Point
