"""Makes programs that are right: random work first, then the order that the oracle says is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.random_programs.abstract import (
    MAIN_STREAM,
    ORDERING,
    Block,
    Call,
    Callback,
    Drop,
    Fresh,
    Function,
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
    within,
)
from benchmarks.random_programs.oracle import Race, Verdict, races, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

SHAPES = ("straight", "loop", "helpers", "class")
MOST_REPAIRS = 30
TRIES = 40
WORDS = (
    "amber birch cedar delta ember flint grove heron inlet jetty knoll larch maple north ochre pearl quartz "
    "ridge slate thorn umber vale willow yarrow zephyr bay crest dune fern glade"
).split()
"""Names that say nothing."""


@dataclass
class Grower:
    """One random program in the making."""

    rng: Random
    library: Library
    shape: str
    numbers: count[int] = field(default_factory=lambda: count(1))
    names: dict[str, What] = field(default_factory=dict)
    rings: dict[str, tuple[What, int]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.words = self.rng.sample(WORDS, len(WORDS))

    # ------------------------------------------------------------------ what there is

    def program(self) -> Program:
        for what, least, most in (
            (What.STREAM, 1, 2),
            (What.EVENT, 1, 3),
            (What.DEVICE, 2, 4),
            (What.HOST, 1, 2),
        ):
            for _ in range(self.rng.randint(least, most)):
                self.names[self.words.pop()] = what
        if self.shape in ("loop", "class"):
            for what in self.rng.sample(list(What), self.rng.randint(0, 3)):
                self.rings[self.words.pop()] = (what, self.rng.randint(2, 3))
        functions: dict[str, Function] = {}
        body: Block
        if self.shape == "helpers":
            functions = {self.words.pop(): self.helper() for _ in range(self.rng.randint(1, 2))}
            body = self.with_calls(functions)
        elif self.shape == "class":
            number = self.rng.randint(2, 3)
            functions = {self.words.pop(): Function((), self.work(1, 3, ringed=True)) for _ in range(number)}
            body = self.driver(list(functions))
        elif self.shape == "loop":
            loop = Loop(next(self.numbers), self.rng.randint(2, 6), self.work(2, 4, ringed=True))
            body = (*self.work(0, 2), loop, *self.work(0, 2))
        else:
            body = self.work(4, 8)
        begin, end = SyncDevice(next(self.numbers)), SyncDevice(0)
        streams = [name for name, what in self.names.items() if what is What.STREAM]
        streams += [name for name, (what, _) in self.rings.items() if what is What.STREAM]
        return Program(
            self.library,
            self.names,
            self.rings,
            self.blocking(streams),
            (begin, *body, end),
            functions,
            self.shape == "class",
        )

    def blocking(self, streams: Sequence[str]) -> frozenset[str]:
        if self.library is Library.TORCH:
            return frozenset()
        chosen = {name for name in streams if self.rng.random() < 0.25}
        elements = {f"{name}[{i}]" for name in chosen & self.rings.keys() for i in range(self.rings[name][1])}
        return frozenset(chosen | elements)

    def driver(self, methods: list[str]) -> Block:
        calls: list[Statement] = []
        for _ in range(self.rng.randint(1, 3)):
            order = self.rng.sample(methods, len(methods))
            calls += [Call(next(self.numbers), method, ()) for method in order]
        if self.rng.random() < 0.5:
            return (Loop(next(self.numbers), self.rng.randint(2, 5), tuple(calls[: len(methods)])),)
        return tuple(calls)

    def helper(self) -> Function:
        parameters: list[tuple[str, What]] = []
        scope: dict[What, list[Operand]] = {what: [] for what in What}
        for what, number in (
            (What.STREAM, self.rng.randint(1, 2)),
            (What.DEVICE, self.rng.randint(1, 3)),
            (What.HOST, self.rng.randint(0, 1)),
            (What.EVENT, self.rng.randint(0, 1)),
        ):
            for _ in range(number):
                name = self.words.pop() if self.words else f"value{len(parameters)}"
                parameters.append((name, what))
                scope[what].append(Name(name))
        return Function(tuple(parameters), self.statements(self.rng.randint(1, 3), scope))

    def with_calls(self, functions: dict[str, Function]) -> Block:
        made: list[Statement] = []
        for _ in range(self.rng.randint(2, 4)):
            if self.rng.random() < 0.5:
                made += self.work(1, 2)
            name = self.rng.choice(list(functions))
            scope = self.scope(ringed=False)
            taken: list[Operand] = []
            for _, what in functions[name].parameters:
                free = [operand for operand in scope[what] if operand not in taken]
                taken.append(self.rng.choice(free or scope[what]))
            made.append(Call(next(self.numbers), name, tuple(taken)))
        return tuple(made)

    def scope(self, *, ringed: bool) -> dict[What, list[Operand]]:
        found: dict[What, list[Operand]] = {what: [] for what in What}
        for name, what in self.names.items():
            found[what].append(Name(name))
        if ringed:
            for ring, (what, size) in self.rings.items():
                found[what] += [Slot(ring, 0), Slot(ring, 0), Slot(ring, self.rng.randrange(size))]
        return found

    # ------------------------------------------------------------------ work

    def work(self, least: int, most: int, *, ringed: bool = False) -> Block:
        return self.statements(self.rng.randint(least, most), self.scope(ringed=ringed))

    def statements(self, number: int, scope: dict[What, list[Operand]]) -> Block:
        made: list[Statement] = []
        for _ in range(number):
            made += self.statement(scope)
        return tuple(made)

    def stream(self, scope: dict[What, list[Operand]]) -> Operand:
        return MAIN_STREAM if self.rng.random() < 0.25 else self.rng.choice(scope[What.STREAM])

    def statement(self, scope: dict[What, list[Operand]]) -> Block:
        rng, at = self.rng, next(self.numbers)
        device, host = scope[What.DEVICE], scope[What.HOST]
        kind = rng.choices(("work", "transfer", "host", "callback", "fresh"), (45, 25, 12, 6, 12))[0]
        if kind == "callback" and self.library is Library.TORCH:
            kind = "work"
        if kind != "fresh" and not host:
            kind = "work"
        match kind:
            case "transfer":
                upload = rng.random() < 0.5
                source, target = (host, device) if upload else (device, host)
                return (Transfer(at, self.stream(scope), rng.choice(source), rng.choice(target), upload),)
            case "host":
                return (HostAccess(at, rng.choice(host), rng.random() < 0.5, rng.randrange(3)),)
            case "callback":
                return (Callback(at, self.stream(scope), rng.choice(host), rng.random() < 0.5),)
            case "fresh":
                return self.temporary(at, scope)
            case _:
                return (self.kernel(at, self.stream(scope), device),)

    def kernel(self, at: int, stream: Operand, device: Sequence[Operand]) -> Work:
        target = self.rng.choice(device)
        others = [operand for operand in device if operand != target]
        most = 1 if self.library is Library.RUNTIME else 2
        number = min(len(others), self.rng.randint(0, most))
        return Work(at, stream, tuple(self.rng.sample(others, number)), target, self.rng.randrange(3))

    def temporary(self, at: int, scope: dict[What, list[Operand]]) -> Block:
        """Memory made on one stream, used on another one, and dropped."""
        name = f"fresh{at}"
        target = self.rng.choice(scope[What.DEVICE])
        made = Fresh(at, name, self.stream(scope))
        use = Work(next(self.numbers), self.stream(scope), (Name(name),), target, self.rng.randrange(3))
        return (made, use, Drop(next(self.numbers), name, made.stream))

    # ------------------------------------------------------------------ order

    def repaired(self, program: Program) -> Program | None:
        """The program with ordering statements until nothing races."""
        found = races(program)
        for _ in range(MOST_REPAIRS):
            if not found:
                return program
            better = self.step(program, found)
            if better is None:
                return None
            program, found = better
        return None

    def step(self, program: Program, found: list[Race]) -> tuple[Program, list[Race]] | None:
        race = self.rng.choice(found)
        for number in range(TRIES + 1):
            last = number == TRIES
            changed = self.attempt(program, race, device=last or self.rng.random() < 0.04)
            if changed is not None:
                left = races(changed)
                if len(left) < len(found):
                    return changed, left
        return None

    def attempt(self, program: Program, race: Race, *, device: bool) -> Program | None:
        """One ordering statement, or a record and what waits for it, put somewhere around the race."""
        rng = self.rng
        later = rng.choice((race.later.at, *race.later.calls))
        earlier = rng.choice((race.earlier.at, *race.earlier.calls))
        scope = scope_at(program, later)
        if device:
            return program.edited(later, (SyncDevice(next(self.numbers)),))
        streams, events = [*scope[What.STREAM], MAIN_STREAM], scope[What.EVENT]
        stream, other = rng.choice(streams), rng.choice(streams)
        kind = rng.choices(("stream", "join", "event", "host event", "keep"), (15, 20, 40, 15, 10))[0]
        if kind == "stream":
            return program.edited(later, (SyncStream(next(self.numbers), stream),))
        if kind == "join" and self.library is Library.TORCH and stream != other:
            return program.edited(later, (Join(next(self.numbers), stream, other),))
        if kind == "keep" and self.library is Library.TORCH:
            return self.kept(program, race)
        if not events or earlier == 0:
            return None
        event = rng.choice(events)
        waits: Statement = (
            SyncEvent(next(self.numbers), event)
            if kind == "host event"
            else Wait(next(self.numbers), stream, event, rng.randrange(2))
        )
        recorded_in = scope_at(program, earlier)
        if event not in recorded_in[What.EVENT] or other not in (*recorded_in[What.STREAM], MAIN_STREAM):
            return None
        record = Record(next(self.numbers), event, other)
        if rng.random() < 0.3:
            return program.edited(later, (record, waits))
        return program.edited(earlier, after=(record,)).edited(later, (waits,))

    def kept(self, program: Program, race: Race) -> Program | None:
        for statement in program.statements():
            if isinstance(statement, Work) and statement.at == race.earlier.at:
                for read in statement.reads:
                    if isinstance(read, Name) and read.text.startswith("fresh"):
                        keep = Keep(next(self.numbers), read.text, statement.stream)
                        return program.edited(statement.at, after=(keep,))
        return None


def scope_at(program: Program, at: int) -> dict[What, list[Operand]]:
    """What a statement may name: all in the main function and in methods, parameters in a helper."""
    found: dict[What, list[Operand]] = {what: [] for what in What}
    for function in program.functions.values():
        if function.parameters and any(s.at == at for s in within(function.body)):
            for name, what in function.parameters:
                found[what].append(Name(name))
            return found
    in_main = any(s.at == at for s in within(program.body))
    if program.is_class and in_main:
        return found
    for name, what in program.names.items():
        found[what].append(Name(name))
    if program.is_class or in_loop(program.body, at):
        for ring, (what, size) in program.rings.items():
            found[what] += [Slot(ring, offset) for offset in range(size)]
    return found


def in_loop(block: Block, at: int) -> bool:
    return any(
        isinstance(statement, Loop) and any(inner.at == at for inner in statement.body) for statement in block
    )


def slimmed(program: Program, rng: Random) -> Program:
    """Without ordering statements that order nothing: what is left out of it next is missed."""
    for statement in rng.sample(found := ordering(program), len(found)):
        smaller = program.edited(statement.at, gone=True)
        if verdict(smaller) is Verdict.CLEAN:
            program = smaller
    return program


def ordering(program: Program) -> list[Statement]:
    """The ordering statements that may be left out: what ends the program may not."""
    return [s for s in program.statements() if isinstance(s, ORDERING) and s.at]


def grown(rng: Random) -> Program:
    """A program that is right, of a random library and shape."""
    while True:
        library, shape = rng.choice(list(Library)), rng.choice(SHAPES)
        grower = Grower(rng, library, shape)
        made = grower.repaired(grower.program())
        if made is not None and verdict(made) is Verdict.CLEAN:
            return slimmed(made, rng) if rng.random() < 0.8 else made
