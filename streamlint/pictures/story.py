"""A finding told in its own names: what runs where, what is wrong, and how it goes wrong, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.order.conflicts import ConflictKind
from streamlint.order.hb import Verdict
from streamlint.pictures import words
from streamlint.pictures.lanes import lane_of, stream_at
from streamlint.rules.base import is_handed_out
from streamlint.trace import Alloc, Free, HostAccess, Role, Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.finding import Finding
    from streamlint.pictures.build import Scene
    from streamlint.trace import Doubt, Op, OpId


@frozen()
class Actor:
    """One of the operations that a finding is about."""

    letter: str
    place: str
    lane: str
    code: str
    effect: str


@frozen()
class Story:
    """Sentences with names in backticks."""

    actors: tuple[Actor, ...]
    wrong: tuple[str, ...]
    """What is not ordered, or what else is wrong."""
    heading: str
    steps: tuple[str, ...]
    """An execution in which it goes wrong; of a finding about no pair what is issued, in order."""
    remedy: str
    assumed: tuple[str, ...]


def story(scene: Scene, finding: Finding) -> Story:
    pair = scene.focus.pairs[0] if scene.focus.pairs else None
    steps = (_told(scene, number) for number in scene.shown) if pair is None else _race(scene, *pair)
    return Story(
        actors=tuple(_actor(scene, number) for number in scene.focus.racing),
        wrong=tuple(_wrong(scene, finding, pair)),
        heading="What is issued, in order" if pair is None else "How it goes wrong",
        steps=tuple(steps),
        remedy=sentence(finding.advice),
        assumed=tuple(_assumed(scene, pair)),
    )


def sentence(text: str) -> str:
    """A message that stands by itself."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def _actor(scene: Scene, number: OpId) -> Actor:
    op = scene.judged.op(number)
    span = op.at.span
    return Actor(
        letter=scene.letter(number),
        place=f"{span.path}:{span.line}",
        lane=_where(scene, op),
        code=words.code_of(op, scene.sources),
        effect=words.effect_of(scene.judged, number, scene.focus.buffers_at(number)),
    )


def _where(scene: Scene, op: Op) -> str:
    lane = lane_of(scene.judged, op)
    return f"{lane.name} ({lane.kind})" if lane.kind else lane.name


def _wrong(scene: Scene, finding: Finding, pair: tuple[OpId, OpId] | None) -> Iterator[str]:
    lanes = [lane_of(scene.judged, scene.judged.op(number)).name for number in pair or ()]
    if pair is None or lanes[0] == lanes[1]:
        yield sentence(finding.message)
    else:
        a, b = (scene.letter(number) for number in pair)
        nothing = "No event, wait or synchronization" if scene.is_unordered(*pair) else "Nothing surely"
        yield f"{nothing} makes {lanes[1]} wait for {lanes[0]} between {a} and {b}."
    racing = {scene.judged.op(number).at.span for number in scene.focus.racing}
    for related in finding.related:
        if related.span not in racing:
            yield f"Line {related.span.line}: {related.message}."


# ----------------------------------------------------------------------------- the execution


def _race(scene: Scene, earlier: OpId, later: OpId) -> Iterator[str]:
    judged = scene.judged
    a, b = scene.letter(earlier), scene.letter(later)
    first, second = (lane_of(judged, judged.op(number)).name for number in (earlier, later))
    for number in (each for each in scene.shown if each < earlier):
        yield _told(scene, number)
    if judged.op(earlier).role is Role.BEFORE_CALL:
        yield f"{a}: before the call, the caller has queued work on {first}, which has not run yet."
    else:
        yield f"{_line(scene, earlier)}{a} is queued on {first}. It has not run yet: the stream is busy."
    for number in (each for each in scene.shown if earlier < each < later):
        yield _between(scene, earlier, later, number)
    yield f"{_line(scene, later)}{_begins(judged.op(later), b, second, first)}"
    yield _harm(scene, earlier, later)


def _told(scene: Scene, number: OpId) -> str:
    op = scene.judged.op(number)
    letter = f", {scene.letter(number)}" if number in scene.focus.racing else ""
    code, lane = words.code_of(op, scene.sources), lane_of(scene.judged, op)
    effect = words.effect_of(scene.judged, number, scene.focus.buffers_at(number))
    if op.role is not Role.CODE:
        return f"{code.capitalize()}: {effect}."
    on = f" on {lane.name}" if stream_at(op) is not None else ""
    return f"Line {op.at.span.line}{letter}: `{code}`{on}: {effect}."


def _between(scene: Scene, earlier: OpId, later: OpId, number: OpId) -> str:
    """What happens between the two; of a wait that looks as if it ordered them, that it does not."""
    judged, told = scene.judged, _told(scene, number)
    op = judged.op(number)
    tries = isinstance(op, Wait) and op.stream == judged.stream_at(judged.op(later))
    if tries and judged.hb.ordered(earlier, number).verdict is not Verdict.YES:
        return f"{told} That does not cover {scene.letter(earlier)}."
    return told


def _line(scene: Scene, number: OpId) -> str:
    op = scene.judged.op(number)
    return "" if op.role is not Role.CODE else f"Line {op.at.span.line}: "


def _begins(op: Op, letter: str, lane: str, other: str) -> str:
    if isinstance(op, HostAccess):
        return f"the host does not wait for {other}, and does {letter} at once."
    if isinstance(op, Free | Alloc):
        return f"the allocator does not wait for {other}, and {letter} happens at once."
    if is_handed_out(op):
        return f"{letter}: the caller goes on, on {lane}, which does not wait for {other}."
    return f"{letter} is queued on {lane}, which has nothing to wait for: {letter} runs."


def _harm(scene: Scene, earlier: OpId, later: OpId) -> str:
    judged = scene.judged
    a, b = scene.letter(earlier), scene.letter(later)
    kinds = {
        conflict.kind: conflict.buffer
        for conflict in judged.conflicts
        if (conflict.earlier, conflict.later) == (earlier, later)
        and (not scene.focus.buffers or conflict.buffer in scene.focus.buffers)
    }
    for kind, buffer in kinds.items():
        name = words.buffer_name(judged, buffer)
        match kind:
            case ConflictKind.READ_AFTER_WRITE:
                return f"{b} has read {name} as it was before {a}, or half of it. {a} runs too late."
            case ConflictKind.WRITE_AFTER_READ:
                return f"Only now {a} reads {name}, and finds what {b} has written, or half of it."
            case ConflictKind.WRITE_AFTER_WRITE:
                return f"Only now {a} writes {name}, over what {b} has written: {a} has the last word."
    names = " and ".join(words.buffer_name(judged, buffer) for buffer in sorted(scene.focus.buffers))
    if isinstance(judged.op(later), Free | Alloc):
        return f"Only now {a} uses {names or 'the memory'}, which is somebody else's by now."
    return f"Only now {a} runs, after {b}."


# ----------------------------------------------------------------------------- what it rests on


def _assumed(scene: Scene, pair: tuple[OpId, OpId] | None) -> Iterator[str]:
    judged = scene.judged
    doubts: set[Doubt] = set()
    for number in scene.focus.racing:
        doubts |= judged.op(number).doubts
    for conflict in judged.conflicts:
        if (conflict.earlier, conflict.later) == pair:
            doubts |= conflict.doubts
    yield from words.conditions(judged.trace)
    yield from sorted(doubt.value for doubt in doubts)
