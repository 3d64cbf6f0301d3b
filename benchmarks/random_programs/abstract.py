"""A program in its abstract form: what is queued where, without a library."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CURRENT = "current"
"""The stream that is current where the program starts."""


class Library(Enum):
    TORCH = "torch"
    RUNTIME = "cuda.bindings.runtime"
    CUPY = "cupy"


class What(Enum):
    """What a name stands for."""

    STREAM = "stream"
    EVENT = "event"
    DEVICE = "memory of the device"
    HOST = "pinned memory"


@dataclass(frozen=True, slots=True)
class Name:
    text: str


@dataclass(frozen=True, slots=True)
class Slot:
    """``ring[(i + offset) % len(ring)]``.

    ``i`` is the variable of the loop, or how often the method was called.
    """

    ring: str
    offset: int


Operand: TypeAlias = "Name | Slot"
MAIN_STREAM = Name(CURRENT)


@dataclass(frozen=True, slots=True)
class Statement:
    at: int
    """Which statement of the program it is."""


@dataclass(frozen=True, slots=True)
class Work(Statement):
    """A kernel, or a copy on the device."""

    stream: Operand
    reads: tuple[Operand, ...]
    writes: Operand
    style: int


@dataclass(frozen=True, slots=True)
class Transfer(Statement):
    """An asynchronous copy between pinned memory and the device."""

    stream: Operand
    source: Operand
    target: Operand
    upload: bool


@dataclass(frozen=True, slots=True)
class HostAccess(Statement):
    memory: Operand
    writes: bool
    style: int


@dataclass(frozen=True, slots=True)
class Callback(Statement):
    """A host function in a stream."""

    stream: Operand
    memory: Operand
    writes: bool


@dataclass(frozen=True, slots=True)
class Fresh(Statement):
    """Memory from a pool, made and written on a stream."""

    name: str
    stream: Operand


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    """The last reference goes, or the memory is freed in the order of a stream."""

    name: str
    stream: Operand


@dataclass(frozen=True, slots=True)
class Keep(Statement):
    """``x.record_stream(stream)``."""

    name: str
    stream: Operand


@dataclass(frozen=True, slots=True)
class Record(Statement):
    event: Operand
    stream: Operand


@dataclass(frozen=True, slots=True)
class Wait(Statement):
    stream: Operand
    event: Operand
    style: int = 0


@dataclass(frozen=True, slots=True)
class Join(Statement):
    """``stream.wait_stream(other)``."""

    stream: Operand
    other: Operand


@dataclass(frozen=True, slots=True)
class SyncEvent(Statement):
    event: Operand


@dataclass(frozen=True, slots=True)
class SyncStream(Statement):
    stream: Operand


@dataclass(frozen=True, slots=True)
class SyncDevice(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Loop(Statement):
    times: int
    body: Block


@dataclass(frozen=True, slots=True)
class Call(Statement):
    function: str
    arguments: tuple[Operand, ...]


Block: TypeAlias = "tuple[Statement, ...]"
ORDERING = (Record, Wait, Join, SyncEvent, SyncStream, SyncDevice, Keep)


@dataclass(frozen=True, slots=True)
class Function:
    """A helper with parameters, or a method without."""

    parameters: tuple[tuple[str, What], ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Program:
    library: Library
    names: Mapping[str, What]
    rings: Mapping[str, tuple[What, int]]
    blocking: frozenset[str]
    """Streams that the legacy default stream orders."""
    body: Block
    functions: Mapping[str, Function] = field(default_factory=dict)
    is_class: bool = False
    """Whether the names are attributes of one object, and the functions its methods."""

    def blocks(self) -> Iterator[Block]:
        yield self.body
        for function in self.functions.values():
            yield function.body

    def statements(self) -> Iterator[Statement]:
        for block in self.blocks():
            yield from within(block)

    def edited(self, at: int, before: Block = (), after: Block = (), *, gone: bool = False) -> Program:
        """The program with statements put before and after one, which may go."""

        def edit(block: Block) -> Block:
            made: list[Statement] = []
            for statement in block:
                one = statement
                if isinstance(one, Loop):
                    one = replace(one, body=edit(one.body))
                if one.at != at:
                    made.append(one)
                else:
                    made += [*before, *(() if gone else (one,)), *after]
            return tuple(made)

        functions = {name: replace(f, body=edit(f.body)) for name, f in self.functions.items()}
        return replace(self, body=edit(self.body), functions=functions)


def within(block: Block) -> Iterator[Statement]:
    for statement in block:
        yield statement
        if isinstance(statement, Loop):
            yield from within(statement.body)


def operands(statement: Statement) -> Iterator[Operand]:
    for one in fields(statement):
        value = getattr(statement, one.name)
        for operand in value if isinstance(value, tuple) else (value,):
            if isinstance(operand, (Name, Slot)):
                yield operand
