"""What one run of a program left: the events of its processes, and how it ended."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from streamlint.confirm.inside.hold import Hold
from streamlint.confirm.inside.order import Conflict
from streamlint.confirm.inside.turns import Stop
from streamlint.confirm.terms import CRASHES, Cause, CudaError
from streamlint.confirm.verdict import Failed, Outcome, Returned
from streamlint.frozen import frozen, replace

if TYPE_CHECKING:
    from pathlib import Path

    from streamlint.confirm.inside.turns import Execution
    from streamlint.confirm.inside.values import Snapshot


@frozen()
class Span:
    """When a part of a turn was under way, in nanoseconds: ``"gate"``, ``"earlier"`` or ``"later"``."""

    part: str
    lane: str
    """``"host"``, or a stream of the device."""
    name: str
    start: int
    end: int


@frozen()
class Schedule:
    """One of the ways to hold an operation back and to look at what comes of it."""

    hold: Hold = Hold.CURRENT
    stop: Stop = Stop.MATCHING


_Place: TypeAlias = "tuple[int, int, Stop]"
"""A finding, its turn, and where that ended."""


@dataclass(slots=True)
class Seen:
    """What one run of the program left."""

    ended: int | None = None
    """Exit status, negative for a signal; ``None`` if it was killed for its time."""
    last_line: str = ""
    started: bool = False
    reached: dict[int, int] = field(default_factory=dict)
    parts: dict[_Place, list[tuple[str, Snapshot]]] = field(default_factory=dict)
    """The contents at the end of a turn, by process."""
    held: set[int] = field(default_factory=set)
    holds: dict[int, set[Hold]] = field(default_factory=dict)
    """What else could be held back."""
    stops: dict[int, set[Stop]] = field(default_factory=dict)
    """Where else the turn could have ended."""
    begun: list[Execution] = field(default_factory=list)
    """The turns, in their order, if one process has had them all."""
    watched: set[int] = field(default_factory=set)
    overtaken: set[tuple[int, int]] = field(default_factory=set)
    conflicts: dict[tuple[int, int], Conflict] = field(default_factory=dict)
    """Of operations whose order was seen to matter."""
    opened: dict[int, str] = field(default_factory=dict)
    """The calls that waited for a gate until it was opened."""
    gates: str = ""
    """Where they stood, in words."""
    measured: dict[Execution, tuple[Span, ...]] = field(default_factory=dict)
    outlasted: set[int] = field(default_factory=set)
    waited: dict[tuple[int, int], float] = field(default_factory=dict)
    errors: dict[int, list[CudaError]] = field(default_factory=dict)
    inside: dict[int, int] = field(default_factory=dict)
    """How many threads went into a place and did not come out."""
    driver_error: str = ""
    broken: str = ""
    """The error that the device was left with."""
    environment: dict[str, str] = field(default_factory=dict)

    def leaves(self, place: _Place) -> Snapshot:
        parts = sorted(self.parts.get(place, ()), key=lambda part: part[0])
        return tuple(leaf for _, leaves in parts for leaf in leaves)

    def others(self, finding: int, schedule: Schedule) -> list[Schedule]:
        """What else could be tried, if this schedule shows nothing."""
        holds = [replace(schedule, hold=hold) for hold in Hold if hold in self.holds.get(finding, ())]
        stops = [replace(schedule, stop=stop) for stop in Stop if stop in self.stops.get(finding, ())]
        return [*holds, *stops]

    def outcome(self, finding: int, turn: int, timeout_s: float, stop: Stop = Stop.MATCHING) -> Outcome:
        """The run as the verdict on one finding sees it."""
        if self.ended is None:
            reason = f"the program did not end within {timeout_s:g} s"
            if self.inside.get(finding, 0) > 0:
                return Failed(f"{reason}: it is still in the place of the finding", Cause.TIMEOUT)
            return Failed(reason, Cause.ELSEWHERE)
        if self.ended < 0:
            name = signal.Signals(-self.ended).name
            cause = Cause.CRASH if -self.ended in CRASHES else Cause.UNABLE
            return Failed(f"the program was ended by {name}{self.last_line}", cause)
        if not self.started:
            return Failed(
                "the program did not load the probes: it runs no Python, or Python with -I, -E or -S"
                f"{self.last_line}"
            )
        if self.driver_error:
            return Failed(self.driver_error)
        status = (("device", self.broken or "works"), ("exit status", str(self.ended)))
        return Returned(
            (*self.leaves((finding, turn, stop)), *status),
            held=int(finding in self.held),
            overtaken=(finding, turn) in self.overtaken,
            outlasted=finding in self.outlasted,
            errors=tuple(self.errors.get(finding, ())),
            watched=int(finding in self.watched),
            waited_s=self.waited.get((finding, turn), 0.0),
            opened_by=self.opened.get(finding, ""),
        )


def read(out: Path) -> Seen:
    """The events of all processes of a run; a line that was cut off is left out."""
    seen = Seen()
    begun = []
    for path in sorted(out.glob("*.jsonl"), key=lambda one: one.stat().st_mtime_ns):
        seen.begun = []
        for line in path.read_bytes().splitlines():
            with suppress(ValueError):
                _add(seen, json.loads(line))
        begun += [seen.begun] if seen.begun else []
    seen.begun = begun[0] if len(begun) == 1 else []
    return seen


def _add(seen: Seen, event: dict[str, Any]) -> None:  # noqa: C901, PLR0912 one case an event
    finding, turn = event.get("finding", 0), event.get("turn", 0)
    match event["event"]:
        case "start":
            seen.started = True
        case "begun":
            seen.begun.append((finding, turn))
        case "reached":
            seen.reached[finding] = max(seen.reached.get(finding, 0), turn + 1)
        case "seen":
            name = f"{event['process']}: " if event["process"] else ""
            leaves = tuple((f"{name}{place}", str(text)) for place, text in event["leaves"])
            # Processes write in no order; each of them has a name.
            parts = seen.parts.setdefault((finding, turn, Stop(event["stop"])), [])
            parts.append((event["process"], leaves))
        case "held":
            seen.held.add(finding)
        case "other" if "hold" in event:
            seen.holds.setdefault(finding, set()).add(Hold(event["hold"]))
        case "other":
            seen.stops.setdefault(finding, set()).add(Stop(event["stop"]))
        case "watched":
            seen.watched.add(finding)
        case "waited":
            seen.waited[finding, turn] = max(seen.waited.get((finding, turn), 0.0), event["seconds"])
        case "overtaken":
            seen.overtaken.add((finding, turn))
        case "outlasted":
            seen.outlasted.add(finding)
        case "measured":
            seen.measured[finding, turn] = tuple(Span(*each) for each in event["spans"])
        case "conflict":
            seen.conflicts[finding, turn] = Conflict(**event["conflict"])
        case "opened":
            seen.opened[finding] = event["call"]
        case "gates":
            seen.gates = event["text"]
            seen.environment["gates"] = event["text"]
        case "error":
            error = event["error"]
            found = CudaError(error["name"], error["code"], error["line"], error["in_callback"])
            seen.errors.setdefault(finding, []).append(found)
        case "inside" | "outside" as passed:
            seen.inside[finding] = seen.inside.get(finding, 0) + (1 if passed == "inside" else -1)
        case "broken":
            seen.broken = event["text"]
        case "driver":
            seen.driver_error = event["text"]
        case "environment":
            seen.environment |= event["versions"]
        case _:
            pass
