"""How far a problem is from the code that would show it wrong: other files, and runs that went well.

Two facts about code that is in use, measured on packages that nobody had read (``docs/field-report.md``):
what orders two places of different files mostly stands in a third one, which owns both; and what CUDA
refuses at the first run stands in code that runs only where it is not refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.judging.owners import is_argument
from streamlint.rules.base import place_of, stream_of
from streamlint.trace import Doubt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.rules.base import Judged, Problem, Rule
    from streamlint.source import Span
    from streamlint.trace import Op


def doubts_of(judged: Judged, problem: Problem, rule: Rule, paths: Sequence[Judged]) -> frozenset[Doubt]:
    """The doubts that follow from where the places of a problem stand, and from what it would do."""
    found = set()
    if len(set(_files(judged, problem))) > 1:
        found.add(Doubt.FAR)
    if rule.is_reported and any(_goes_around(other, judged, problem) for other in paths):
        found.add(Doubt.REPORTED)
    return frozenset(found)


def _goes_around(other: Judged, judged: Judged, problem: Problem) -> bool:
    """Whether another path comes by the other places of a problem, and not by its own.

    ``if self.table is None: self.table = build(x.tolist())``: done before the capture, it raises nothing.
    """
    if place_of(judged.op(problem.later)) in other.places:
        return False
    reached = {op.at.span for op in other.trace.ops}
    return all(note.span in reached for note in problem.notes)


def _files(judged: Judged, problem: Problem) -> Iterator[str]:
    """Where the operations stand, what is told with them, and the calls that lead to only one of them.

    ``stage(slot, rows)`` of another file copies, and this one refills ``rows``: the scheduler, a third file,
    gives a slot back only when its copy is done. What a function of another file does that names no stream
    stands where it is called: ``with torch.cuda.stream(self.side): y = self.mlp(x)``. So does what it only
    copies there: ``host = to_host(x)``, in the block of a stream.
    """
    ops = [judged.op(number) for number in (problem.earlier, problem.later) if number is not None]
    places = {op.at.span for op in ops}
    if _is_in_sight(judged, problem):
        return
    yield from (note.span.path for note in problem.notes if note.span not in places)
    ways = [op.at.answerable(entered=_is_entered(judged, op)) for op in ops]
    if not _is_at_hand(judged, problem, ops, ways):
        ways = [(*op.at.calls, op.at.span) for op in ops]
    yield from (way[-1].path for way in ways)
    if len(ways) > 1:
        yield from _apart(*ways)


def _is_in_sight(judged: Judged, problem: Problem) -> bool:
    """Whether all that could order the two lies between them in one call from outside, and is seen.

    ``rows = torch.cat(parts)``, and ``pool.run(rows)`` of another file, on streams of the pool. Or
    ``rows = pool.bring(page)``, and ``rows.sum()``. Not where the pool was handed in: who has it may have
    entered its stream before.
    """
    if problem.earlier is None or problem.buffer is None:
        return False
    earlier, later = judged.op(problem.earlier), judged.op(problem.later)
    used = (stream for op in (earlier, later) if (stream := stream_of(op)) is not None)
    if any(judged.trace.streams[stream].handed for stream in used):
        return False
    in_one_call = later.at.call == earlier.at.call
    return in_one_call and not judged.trace.calls_unseen(problem.earlier, problem.later)


def _is_entered(judged: Judged, op: Op) -> bool:
    """Whether an op works on a stream that is not the one current at the beginning."""
    stream = stream_of(op)
    return stream is not None and not judged.trace.streams[stream].is_default


def _is_at_hand(
    judged: Judged, problem: Problem, ops: Sequence[Op], ways: Sequence[tuple[Span, ...]]
) -> bool:
    """Whether who calls the functions has the memory: it was given that, made it, or got it from one of them.

    ``pool.write(slot, rows)`` and ``pool.read(slot)``, of a pool in another file, are about what that has.
    """
    if problem.buffer is None or any(Doubt.OPAQUE in op.doubts for op in ops):
        # pins.pin(page), a call in another file that is not resolved: what it does to the page is a guess.
        return False
    buffer = judged.trace.buffers[problem.buffer]
    made = buffer.span
    if made is None:
        return is_argument(buffer)
    return made in {op.at.span for op in ops} or made.path in {way[-1].path for way in ways}


def _apart(first: tuple[Span, ...], second: tuple[Span, ...]) -> Iterator[str]:
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    yield from (span.path for span in (*first[common:], *second[common:]))
