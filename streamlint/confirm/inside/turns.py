"""What a run of a whole program is to do, and what it has seen so far of the statements of a finding."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.sight import result_of
from streamlint.frozen import frozen

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.confirm.inside.lookout import Statement
    from streamlint.confirm.inside.order import Operation
    from streamlint.confirm.inside.probe import Mode
    from streamlint.confirm.inside.reuse import Block
    from streamlint.confirm.inside.sight import Sight


Execution: TypeAlias = "tuple[int, int]"
"""A finding, and which execution of its earlier operation, counted from 0."""


class Stop(Enum):
    """Which execution of the later operation ends a turn."""

    MATCHING = "matching"
    """The first one that touches memory which the earlier one touched, and is another statement or
    another execution of it."""
    FIRST = "first"
    """The first of all. ``loss.backward()``, then ``bucket.copy_(p.grad)``: no memory is named in both.
    Or ``float(slot.copy_(x, non_blocking=True))``, which is the earlier and the later operation."""


@frozen()
class Order:
    """What one run of the program is to do."""

    mode: Mode
    held: frozenset[Execution] = frozenset()
    """The executions whose gates are closed; none: no gate, all findings are watched."""
    delay_ms: float = 200.0
    reuse: frozenset[int] = frozenset()
    """Findings about memory that is handed out again."""
    stuck: frozenset[int] = frozenset()
    """Findings about statements that never end."""
    hold: Hold = Hold.CURRENT
    """What is held back where the statement names no stream."""
    stop: Stop = Stop.MATCHING
    records: frozenset[int] = frozenset()
    """Findings whose earlier operation is the record of an event."""
    images: Path | None = None
    """Where the modules are that a turn loads."""
    free: frozenset[Execution] = frozenset()
    """Others that are looked at in the same way, with no gate: what the gates of ``held`` do to them."""
    measures: bool = False
    """Whether the device is to tell when it did what, for a picture."""

    @property
    def is_patient(self) -> bool:
        """Whether a gate may stay closed until the later operation is decided.

        Not where memory is handed out again, which waits for it, nor where the program is to hang.
        """
        return bool(self.held) and self.findings.isdisjoint(self.reuse | self.stuck)

    @property
    def findings(self) -> frozenset[int]:
        """Those of which an execution is looked at."""
        return frozenset(finding for finding, _ in self.held | self.free)

    def watches(self, finding: int) -> bool:
        return not self.held or finding in self.findings

    def begins(self, finding: int, number: int) -> bool:
        """Whether this execution of the earlier operation begins a turn."""
        return not self.held or (finding, number) in self.held | self.free

    def holds(self, finding: int, number: int) -> bool:
        """Whether a turn that has begun has a gate."""
        return self.mode.delays and (finding, number) not in self.free


@dataclass(slots=True)
class Turn:
    """One execution of an earlier operation, and what was seen since."""

    finding: int
    number: int
    sights: list[Sight] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)
    """The memory that it touches."""
    results: list[Sight] = field(default_factory=list)
    """Of the calls in it. Many are gone with the statement, and their memory soon is another array's."""
    laters: int = 0
    strangers: list[Sight] = field(default_factory=list)
    """Of later operations that did not end it. They may belong to it all the same, if no other does."""
    blocks: list[Block] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    """Driver calls that can be made again."""
    queued: Statement | None = None
    """What it asked of the driver, where that is seen."""

    def shares(self, keys: set[int]) -> bool:
        """Whether memory is the same, as far as is known."""
        own = self.keys.union(*(result.living_keys() for result in self.results))
        return not keys or not own or bool(keys & own)


@dataclass(slots=True)
class Later:
    """An execution of a later operation that is under way."""

    closed: bool
    """Whether the earlier one was held back at its start."""
    own: bool
    """Whether its statement is the earlier operation, too."""
    sights: list[Sight] = field(default_factory=list)
    keys: set[int] = field(default_factory=set)
    streams: list[int] = field(default_factory=list)
    queued: Statement | None = None
    """What it asked of the driver, where that is seen."""
    results: list[Sight] = field(default_factory=list)
    """Numbers that its calls returned: ``print(host.sum())`` keeps none of what it reads."""
    began: float = field(default_factory=time.monotonic)
    """Seconds, of the monotonic clock."""

    def gave(self, result: Sight | None, value: object) -> None:
        """A call of its statement returned ``value``, which ``result`` is the memory of."""
        self.keys |= set() if result is None else result.keys()
        number = result_of(len(self.results) + 1, value)
        self.results += [] if number is None else [number]
