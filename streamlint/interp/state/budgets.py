"""What a file may cost, and what was left out where it costs more.

A program decides how much work its analysis is: ``a = a + a`` forty times is forty lines and 10**12
elements. So each thing is bounded where it is made or done. The limits count steps, values and sizes, never
seconds: what is found does not depend on the machine. Time and memory are looked at as the last resort only,
and then the file is named as cut.
"""

from __future__ import annotations

import hashlib
import sys
import time
from dataclasses import dataclass, field

from streamlint.frozen import frozen


@frozen()
class Limits:
    """How much of each is done or kept."""

    path_steps: int = 30_000
    """Expressions and statements of a path ..."""
    entry_steps: int = 10_000
    """... of all paths of an entry ..."""
    file_steps: int = 3_000_000
    """... and of all entries of a file."""
    path_ops: int = 6_000
    """Operations of a path."""
    line_steps: int = 12
    line_ops: int = 4
    """A function that is longer than that gets more: so many steps and operations for each of its lines."""
    call_depth: int = 40
    scans: int = 500
    """Searches for dropped references on one path; after that nothing is taken to be dropped."""
    elements: int = 4_096
    """Elements of a list that the program computes, and of a tuple with those in its tuples."""
    text: int = 4_096
    """Characters of a string, and bits of a number, that the program computes."""
    key: int = 1_000
    """Characters of the text that tells an unknown value in a message."""
    ancestors: int = 256
    """Classes that a class inherits from, near ones first."""
    path_cost: int = 500
    """What a path costs beside its steps, counted in steps: to be begun, ordered and judged."""
    file_seconds: float = 120.0
    """CPU time: the last resort. The steps of a file are done in a fifth of it, on a busy machine too."""
    file_bytes: int = 3_000_000_000
    """Growth of the process: the last resort."""

    def of_path(self, lines: int) -> tuple[int, int]:
        """Steps and operations of a path through functions, or a module's body, of so many lines.

        What repeats is bounded, and not what is written once: 5,000 kernels one after the other are all run.
        """
        return max(self.path_steps, lines * self.line_steps), max(self.path_ops, lines * self.line_ops)


LIMITS = Limits()
LOOKS_AFTER = 4_096
"""Steps after which time and memory are looked at; a path looks as often by itself."""


@frozen()
class Most:
    """A bound of its own, where what is bounded is done: ``MOST_WAKES = Most(3, "wakes of a thread")``.

    It is asked of ``Budgets`` only, so that none cuts anything in silence.
    """

    number: int
    what: str
    """What is left out beyond it, for the summary."""


class FileCut(Exception):
    """The budget of the whole file ran out: what was found so far stands, and the rest is left out."""


class OutOfResources(FileCut):
    """Time or memory ran out: another run may get further."""


def resident() -> int:
    """The most memory that this process has used, in bytes."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@dataclass(slots=True)
class Budgets:
    """The limits of one file, what has been spent of them, and what was left out."""

    limits: Limits = LIMITS
    steps: int = 0
    entry: str = ""
    """The entry that is run."""
    left_out: set[str] = field(default_factory=set)
    """What the running entry left out, in words; ``taken`` empties it."""
    never_run: set[tuple[str, str]] = field(default_factory=set)
    """Classes and functions some of whose entries were not run at all, with what these are."""
    _looked: int = 0
    """The steps spent when time and memory were looked at last."""
    _started: float = field(default_factory=time.process_time)
    _size: int = field(default_factory=resident)

    def allows(self, most: Most, count: int) -> bool:
        """Whether so many are within a bound; if not, the running entry leaves something out."""
        if count > most.number:
            self.cut(most)
        return count <= most.number

    def cut(self, most: Most) -> None:
        """A bound is reached, and the running entry leaves something out."""
        self.left_out.add(most.what)

    def allows_entries(self, most: Most, count: int, owner: str) -> bool:
        """The same where the entries of a class or a function are chosen: some are not run at all."""
        if count > most.number:
            self.never_run.add((owner, most.what))
        return count <= most.number

    def taken(self) -> frozenset[str]:
        """What was left out since the last call."""
        taken = frozenset(self.left_out)
        self.left_out.clear()
        return taken

    def spend(self, steps: int) -> None:
        """A path is done."""
        self.steps += steps + self.limits.path_cost
        if self.steps > self.limits.file_steps:
            raise FileCut(f"more than {self.limits.file_steps} steps")
        if self.steps - self._looked > LOOKS_AFTER:
            self._looked = self.steps
            self.look()

    def look(self) -> None:
        """The last resort: what is left when no other limit holds."""
        if time.process_time() - self._started > self.limits.file_seconds:
            raise OutOfResources(f"more than {self.limits.file_seconds:.0f} s of CPU time")
        if resident() - self._size > self.limits.file_bytes:
            raise OutOfResources(f"more than {self.limits.file_bytes // 10**6} MB of memory")


def short(text: str) -> str:
    """A text that tells a value, bounded: equal texts stay equal, and others stay different.

    ``a = a + a`` forty times would be told in 10**12 characters. Beginning and end stay as they are: they
    tell what the value was made of, and by what.
    """
    if len(text) <= LIMITS.key:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]
    return f"{text[: LIMITS.key // 4]}<{digest}>{text[-LIMITS.key // 4 :]}"
