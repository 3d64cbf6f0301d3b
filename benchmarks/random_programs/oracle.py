"""Executes a program and knows which accesses are unordered.

An operation knows what is complete before it begins, as the bits of a number. A stream carries what is
complete before its next operation, an event what was when it was recorded, and the host what it has waited
for. Nothing here comes from the analyzer: the laws are those of ``docs/semantics.md``, written a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from benchmarks.random_programs.abstract import (
    CURRENT,
    Block,
    Call,
    Callback,
    Drop,
    Fresh,
    HostAccess,
    Join,
    Keep,
    Library,
    Loop,
    Name,
    Operand,
    Program,
    Record,
    Slot,
    Statement,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Transfer,
    Wait,
    What,
    Work,
)


class Verdict(Enum):
    CLEAN = "clean"
    RACES = "races"
    OPEN = "open"
    """Neither: it depends on the stream that is current, or a wait is for what is never recorded."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a statement was executed: the statement of each call, and names bound there."""

    calls: tuple[int, ...]
    bound: dict[str, str]
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Access:
    number: int
    at: int
    calls: tuple[int, ...]
    stream: str | None
    """None is the host."""
    writes: bool


@dataclass(frozen=True, slots=True)
class Race:
    earlier: Access
    later: Access
    memory: str


@dataclass(slots=True)
class Pool:
    """Blocks given back to a stream, with what may still use them."""

    uses: list[Access] = field(default_factory=list)
    blocks: int = 0


@dataclass
class Execution:
    """One run of a program."""

    program: Program
    current_is_legacy: bool
    quiet_orders: bool = True
    """Whether frees and records on the legacy default stream hold back blocking streams: nothing says so."""
    count: int = 0
    host: int = 0
    tails: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    accesses: dict[str, list[Access]] = field(default_factory=dict)
    races: list[Race] = field(default_factory=list)
    made: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What a name of fresh memory holds: the memory and the stream that it belongs to."""
    kept: dict[str, set[str]] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    recorded: set[str] = field(default_factory=set)
    waited: set[str] = field(default_factory=set)
    dead_waits: set[int] = field(default_factory=set)
    live_waits: set[int] = field(default_factory=set)

    def run(self) -> Execution:
        frame = Frame((), {})
        for name in self.all_of(What.DEVICE):
            self.on_stream(CURRENT, [(name, True)], Statement(0), frame)
        self.block(self.program.body, frame)
        return self

    def all_of(self, what: What) -> list[str]:
        names = [name for name, kind in self.program.names.items() if kind is what]
        rings = self.program.rings.items()
        return names + [f"{ring}[{i}]" for ring, (kind, size) in rings if kind is what for i in range(size)]

    # ------------------------------------------------------------------ statements

    def block(self, block: Block, frame: Frame) -> None:
        for statement in block:
            self.statement(statement, frame)

    def statement(self, s: Statement, frame: Frame) -> None:  # noqa: C901, PLR0912  one case a kind
        def of(operand: Operand) -> str:
            return self.resolved(operand, frame)

        match s:
            case Work():
                accesses = [(of(read), False) for read in s.reads]
                self.on_stream(of(s.stream), [*accesses, (of(s.writes), True)], s, frame)
            case Transfer():
                self.on_stream(of(s.stream), [(of(s.source), False), (of(s.target), True)], s, frame)
            case Callback():
                self.on_stream(of(s.stream), [(of(s.memory), s.writes)], s, frame)
            case HostAccess():
                self.on_host(of(s.memory), s, frame)
            case Fresh():
                self.fresh(s, of(s.stream), frame)
            case Drop():
                self.drop(s, of(s.stream), frame)
            case Keep():
                self.kept.setdefault(of(Name(s.name)), set()).add(of(s.stream))
            case Record():
                stream = of(s.stream)
                self.events[of(s.event)] = self.known_to(stream) | self.host
                if self.is_legacy(stream) and self.quiet_orders:
                    self.learn(stream, self.known_to(stream))
                self.recorded.add(of(s.event))
            case Wait():
                self.note_wait(s.at, of(s.event))
                self.learn(of(s.stream), self.events.get(of(s.event), 0))
            case Join():
                self.learn(of(s.stream), self.known_to(of(s.other)) | self.host)
            case SyncEvent():
                self.note_wait(s.at, of(s.event))
                self.host |= self.events.get(of(s.event), 0)
            case SyncStream():
                stream = of(s.stream)
                self.host |= self.known_to(stream) if self.is_legacy(stream) else self.tails.get(stream, 0)
            case SyncDevice():
                self.host = (1 << self.count) - 1
            case Loop():
                for turn in range(s.times):
                    self.block(s.body, Frame(frame.calls, frame.bound, turn))
            case Call():
                self.call(s, frame)
            case _:
                raise AssertionError(s)

    def call(self, s: Call, frame: Frame) -> None:
        function = self.program.functions[s.function]
        turn = self.turns.get(s.function, 0)
        self.turns[s.function] = turn + 1
        values = [self.resolved(argument, frame) for argument in s.arguments]
        bound = {name: value for (name, _), value in zip(function.parameters, values, strict=True)}
        self.block(function.body, Frame((*frame.calls, s.at), bound, turn))

    def resolved(self, operand: Operand, frame: Frame) -> str:
        if isinstance(operand, Slot):
            _, size = self.program.rings[operand.ring]
            return f"{operand.ring}[{(frame.turn + operand.offset) % size}]"
        name = frame.bound.get(operand.text, operand.text)
        return self.made[name][0] if name in self.made else name

    def note_wait(self, at: int, event: str) -> None:
        (self.live_waits if event in self.recorded else self.dead_waits).add(at)

    # ------------------------------------------------------------------ order

    def is_legacy(self, stream: str) -> bool:
        return stream == CURRENT and self.current_is_legacy

    def known_to(self, stream: str) -> int:
        """What is complete before the next operation of a stream, without the host."""
        known = self.tails.get(stream, 0)
        if self.is_legacy(stream):
            for other in self.program.blocking:
                known |= self.tails.get(other, 0)
        elif stream in self.program.blocking and self.current_is_legacy:
            known |= self.tails.get(CURRENT, 0)
        return known

    def learn(self, stream: str, known: int) -> None:
        self.tails[stream] = self.tails.get(stream, 0) | known

    def on_stream(self, stream: str, accesses: list[tuple[str, bool]], s: Statement, frame: Frame) -> None:
        quiet = isinstance(s, Drop) and self.is_legacy(stream) and not self.quiet_orders
        before = self.host | (self.tails.get(stream, 0) if quiet else self.known_to(stream))
        self.note(accesses, before, stream, s, frame)
        self.tails[stream] = before | 1 << self.count
        self.count += 1

    def on_host(self, memory: str, s: HostAccess, frame: Frame) -> None:
        self.note([(memory, s.writes)], self.host, None, s, frame)
        self.host |= 1 << self.count
        self.count += 1

    def note(
        self, accesses: list[tuple[str, bool]], before: int, stream: str | None, s: Statement, frame: Frame
    ) -> None:
        for memory, writes in accesses:
            access = Access(self.count, s.at, frame.calls, stream, writes)
            earlier = self.accesses.setdefault(memory, [])
            for one in earlier:
                if (one.writes or writes) and one.number != self.count and not before >> one.number & 1:
                    self.races.append(Race(one, access, memory))
            earlier.append(access)

    # ------------------------------------------------------------------ memory that comes back

    def fresh(self, s: Fresh, stream: str, frame: Frame) -> None:
        memory = f"{s.name}#{self.count}"
        self.made[s.name] = (memory, stream)
        pool = self.pools.setdefault(stream, Pool())
        before = self.known_to(stream) | self.host
        access = Access(self.count, s.at, frame.calls, stream, writes=True)
        for use in pool.uses:
            if not before >> use.number & 1:
                self.races.append(Race(use, access, memory))
        pool.blocks = max(0, pool.blocks - 1)
        if not pool.blocks:
            pool.uses.clear()
        self.on_stream(stream, [(memory, True)], s, frame)

    def drop(self, s: Drop, stream: str, frame: Frame) -> None:
        memory, owner = self.made.pop(s.name)
        if self.program.library is Library.RUNTIME:
            # cudaFreeAsync(x, stream): an operation of that stream. The pool knows its streams.
            self.on_stream(stream, [(memory, True)], s, frame)
            return
        safe = {owner, *self.kept.get(memory, ())}
        uses = [use for use in self.accesses.get(memory, []) if use.stream not in safe]
        pool = self.pools.setdefault(owner, Pool())
        pool.uses += uses
        pool.blocks += 1


def races(program: Program) -> list[Race]:
    """All that is unordered, whichever stream is current."""
    return list(chain.from_iterable(Execution(program, legacy).run().races for legacy in (True, False)))


def verdict(program: Program) -> Verdict:
    runs = [Execution(program, *what).run() for what in _unknowns(program)]
    if all(run.races for run in runs):
        return Verdict.RACES
    # A wait for what is never recorded is a mistake of its own, whether something races or not.
    if any(run.races or run.dead_waits - run.live_waits for run in runs):
        return Verdict.OPEN
    return Verdict.CLEAN


def _unknowns(program: Program) -> tuple[tuple[bool, bool], ...]:
    """What may be or not: that the current stream is the legacy one, and that frees and records order.

    Stream 0 of the runtime is the legacy default stream, and the other libraries free nothing on a stream.
    """
    return (
        ((True, True), (True, False)) if program.library is Library.RUNTIME else ((True, True), (False, True))
    )
