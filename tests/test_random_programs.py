"""A share of the random programs, and the oracle that judges them: see ``docs/random-programs.md``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.random_programs.abstract import (
    CURRENT,
    Callback,
    Drop,
    Fresh,
    HostAccess,
    Keep,
    Library,
    Loop,
    Name,
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
from benchmarks.random_programs.compare import Outcome, Pair, compare, pair_of
from benchmarks.random_programs.oracle import Verdict, verdict

SEED, PAIRS = 5, 60
S, T, E, X, Y, H, MAIN = (Name(text) for text in ("s", "t", "e", "x", "y", "h", CURRENT))
NAMES = {
    **dict.fromkeys("st", What.STREAM),
    "e": What.EVENT,
    **dict.fromkeys("xy", What.DEVICE),
    "h": What.HOST,
}


def test_the_analyzer_says_what_the_oracle_says() -> None:
    outcome, told = Outcome(), list[str]()

    def on(pair: Pair, what: str, text: str) -> None:
        told.append(f"{pair.number}: {what}\n{text}")

    for number in range(PAIRS):
        compare(pair_of(SEED, number), outcome, on)
    assert told == []
    assert outcome.racy > PAIRS / 2


def test_a_pair_of_a_seed_is_always_the_same() -> None:
    assert pair_of(SEED, 3) == pair_of(SEED, 3) != pair_of(SEED + 1, 3)


def program(*body: Statement, library: Library = Library.TORCH, blocking: str = "") -> Program:
    numbered = tuple(replace(statement, at=at) for at, statement in enumerate(body, 1))
    setup = SyncDevice(1000)
    return Program(
        library, NAMES, {"ring": (What.HOST, 2)}, frozenset(blocking), (setup, *numbered, SyncDevice(0))
    )


def work(stream: Name, *reads: Name, writes: Name) -> Work:
    return Work(0, stream, reads, writes, 0)


CASES: dict[str, tuple[Program, Verdict]] = {
    "two streams": (program(work(S, writes=X), work(T, X, writes=Y)), Verdict.RACES),
    "an event": (
        program(work(S, writes=X), Record(0, E, S), Wait(0, T, E), work(T, X, writes=Y)),
        Verdict.CLEAN,
    ),
    "an event recorded before": (
        program(Record(0, E, S), work(S, writes=X), Wait(0, T, E), work(T, X, writes=Y)),
        Verdict.RACES,
    ),
    "an event recorded again": (
        program(work(S, writes=X), Record(0, E, S), Record(0, E, MAIN), Wait(0, T, E), work(T, X, writes=Y)),
        Verdict.RACES,
    ),
    "nothing recorded, nothing pending": (program(Wait(0, T, E), work(T, writes=X)), Verdict.OPEN),
    "two reads": (program(work(S, X, writes=Y), work(T, X, writes=Name("ring[0]"))), Verdict.CLEAN),
    "overwritten while it is read": (program(work(S, X, writes=Y), work(T, writes=X)), Verdict.RACES),
    "the host waits": (
        program(Transfer(0, S, X, H, upload=False), SyncStream(0, S), HostAccess(0, H, False, 0)),
        Verdict.CLEAN,
    ),
    "the host waits for another stream": (
        program(Transfer(0, S, X, H, upload=False), SyncStream(0, T), HostAccess(0, H, False, 0)),
        Verdict.RACES,
    ),
    "what the host knows it carries to the next stream": (
        program(work(S, writes=X), Record(0, E, S), SyncEvent(0, E), work(T, X, writes=Y)),
        Verdict.CLEAN,
    ),
    "a host function": (
        program(Callback(0, S, H, writes=True), HostAccess(0, H, False, 0), library=Library.CUPY),
        Verdict.RACES,
    ),
    "the legacy stream and a blocking one": (
        program(work(S, writes=X), work(MAIN, X, writes=Y), library=Library.RUNTIME, blocking="s"),
        Verdict.CLEAN,
    ),
    "the current stream and a blocking one": (
        program(work(S, writes=X), work(MAIN, X, writes=Y), library=Library.CUPY, blocking="s"),
        Verdict.OPEN,
    ),
    "the legacy stream and a non-blocking one": (
        program(work(S, writes=X), work(MAIN, X, writes=Y), library=Library.RUNTIME),
        Verdict.RACES,
    ),
    "a ring of two, the third time": (
        program(
            Loop(
                0,
                3,
                (
                    HostAccess(50, Slot("ring", 0), True, 0),
                    Transfer(51, S, Slot("ring", 0), X, upload=True),
                ),
            )
        ),
        Verdict.RACES,
    ),
    "a ring of two, twice": (
        program(
            Loop(
                0,
                2,
                (
                    HostAccess(50, Slot("ring", 0), True, 0),
                    Transfer(51, S, Slot("ring", 0), X, upload=True),
                ),
            )
        ),
        Verdict.CLEAN,
    ),
    "a block that comes back": (
        program(
            Fresh(0, "f", MAIN),
            Record(0, E, MAIN),
            Wait(0, S, E),
            work(S, Name("f"), writes=X),
            Drop(0, "f", MAIN),
            Fresh(0, "g", MAIN),
        ),
        Verdict.RACES,
    ),
    "a block that is kept": (
        program(
            Fresh(0, "f", MAIN),
            Record(0, E, MAIN),
            Wait(0, S, E),
            work(S, Name("f"), writes=X),
            Keep(0, "f", S),
            Drop(0, "f", MAIN),
            Fresh(0, "g", MAIN),
        ),
        Verdict.CLEAN,
    ),
    "freed in the order of another stream": (
        program(
            Fresh(0, "f", S),
            work(S, Name("f"), writes=X),
            Drop(0, "f", T),
            library=Library.RUNTIME,
        ),
        Verdict.RACES,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_oracle(name: str) -> None:
    made, known = CASES[name]
    assert verdict(made) is known
