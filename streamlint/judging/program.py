"""What a program shows of its own calls: the run of its module's body makes all that there are.

``if __name__ == "__main__": main()`` of a file that no other one imports. Its classes are run by themselves
too, with calls in any order and arguments that may be pending. Where a problem rests on such a call, and the
program comes by both places with one memory that it keeps in order, no call makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamlint.rules.base import is_entry, is_handed_out
from streamlint.trace import Alloc, Copy, Doubt, Free, HostAccess, Launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from streamlint.interp.entries.runs import Run
    from streamlint.rules.base import Judged, Problem
    from streamlint.source import Span
    from streamlint.trace import BufferId, Op, OpId

_OF_CALLERS = frozenset({Doubt.CALLS, Doubt.ARGUMENT, Doubt.RESULT})


@dataclass(slots=True)
class _Uses:
    """The first and the last op, of some, that use a buffer."""

    first: OpId
    last: OpId


@dataclass(slots=True)
class _Path:
    """A path of the program: what uses which memory where, and what memory it leaves without order."""

    open: frozenset[BufferId]
    at: dict[Span, dict[BufferId, _Uses]] = field(default_factory=dict)
    """By the place, and by the calls that led there: ``self.work(state)`` stands for what it did."""
    all: dict[BufferId, _Uses] = field(default_factory=dict)
    made: dict[Span, list[BufferId]] = field(default_factory=dict)
    """Memory by the place that allocates it."""
    dropped: set[BufferId] = field(default_factory=set)

    def pairs(self, earlier: Span | None, later: Span | None) -> Iterator[BufferId]:
        """Memory that one place uses and then the other; None stands for what callers do before or behind."""
        before = self.all if earlier is None else self.at.get(earlier, {})
        behind = self.all if later is None else self.at.get(later, {})
        for buffer, uses in before.items():
            if buffer in behind and uses.first < behind[buffer].last:
                yield buffer

    def given_back(self, earlier: Span | None, made: Span | None) -> Iterator[BufferId]:
        """Memory that one place allocates, another one uses, and that the program has dropped."""
        alike = self.made.get(made, ()) if made is not None else ()
        if earlier is None:
            # What callers do with it, the program does all over the path.
            yield from (one for one in alike if one in self.all)
        else:
            used = self.at.get(earlier, {})
            yield from (one for one in alike if one in used and one in self.dropped)


def _path(judged: Judged, problems: Iterable[Problem]) -> _Path:
    left = {conflict.buffer for conflict in judged.conflicts}
    left |= {problem.buffer for problem in problems if problem.buffer is not None}
    path = _Path(frozenset(left))
    for number in judged.numbers(Launch, Copy, HostAccess, Alloc, Free):
        op = judged.op(number)
        if isinstance(op, Alloc):
            path.all.setdefault(op.buffer, _Uses(number, number))
        for buffer in _used(op):
            for uses in (path.all, *(path.at.setdefault(span, {}) for span in (op.at.span, *op.at.calls))):
                uses.setdefault(buffer, _Uses(number, number)).last = number
        if isinstance(op, Free):
            path.dropped.add(op.buffer)
    for known in judged.trace.buffers.values():
        if known.span is not None:
            path.made.setdefault(known.span, []).append(known.id)
    return path


def _used(op: Op) -> set[BufferId]:
    match op:
        case Free(buffer=buffer):
            return {buffer}
        case Launch() | Copy() | HostAccess() if not is_entry(op) and not is_handed_out(op):
            return {access.buffer for access in op.accesses}
        case _:
            return set()


@dataclass(slots=True)
class Program:
    """The paths of a module's body in which nothing is wrong."""

    is_imported: Callable[[], bool]
    """Whether another file may call what stands in this one."""
    paths: list[_Path] = field(default_factory=list)

    def note(self, run: Run, paths: Sequence[Judged], problems: Sequence[Sequence[Problem]]) -> None:
        """Takes in an entry that was judged, with all that its paths leave open."""
        if run.entry.label != run.entry.module or run.at_fault:
            return
        # Where the search for dropped references was cut, all calls were made all the same.
        for judged, found in zip(paths, problems, strict=True):
            if set(judged.trace.cut) <= {"lifetimes"}:
                self.paths.append(_path(judged, found))

    def keeps_in_order(self, judged: Judged, problem: Problem) -> bool:
        """Whether only a call that the program does not make could have a problem."""
        if not self.paths or problem.earlier is None or not problem.doubts & _OF_CALLERS:
            return False
        return self._shows(judged, problem) and not self.is_imported()

    def _shows(self, judged: Judged, problem: Problem) -> bool:
        assert problem.earlier is not None
        first, last = judged.op(problem.earlier), judged.op(problem.later)
        before, behind = _place(first), _place(last)
        came_by = False
        for path in self.paths:
            found = list(path.pairs(before, behind))
            if not found and problem.buffer is not None and isinstance(last, (Alloc, Free)):
                found = list(path.given_back(before, judged.trace.buffers[problem.buffer].span))
            for buffer in found:
                if buffer in path.open:
                    return False
                came_by = True
        return came_by


def _place(op: Op) -> Span | None:
    """Where an op stands that the program makes; None of what stands for its callers."""
    return None if is_entry(op) or is_handed_out(op) else op.at.span
