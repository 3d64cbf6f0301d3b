"""What the tracers see, in compact form: most of it is dropped before a trace is made.

A training loop queues millions of operations. Almost all of them touch memory that only one stream
ever uses, and cannot take part in a conflict. So an event costs little until ``translate`` has
decided that it matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from streamlint.trace import (
        BufferId,
        DeviceId,
        Doubt,
        FreeKind,
        HostEffect,
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
    """The call that allocated it, for the rules that tell allocators apart."""
    user: StreamId | None = None
    """The stream that orders the allocation, or else the first that used it."""
    alive: bool = True


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


@dataclass(slots=True, eq=False)
class Move:
    """A copy that the host takes part in."""

    place: Place
    stream: StreamId
    name: str
    source: Touch | None
    target: Touch | None
    effect: HostEffect


@dataclass(slots=True, eq=False)
class HostTouch:
    place: Place
    name: str
    touches: list[Touched]


@dataclass(slots=True, eq=False)
class Birth:
    block: Block


@dataclass(slots=True, eq=False)
class Death:
    place: Place
    block: Block
    kind: FreeKind
    stream: StreamId | None
    name: str


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


Entry: TypeAlias = Work | Move | HostTouch | Birth | Death | Keep | Point
