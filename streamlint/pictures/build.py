"""From a trace, and what was found in it, to a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.judging.judge import judge
from streamlint.notebook import split_path
from streamlint.order.hb import Verdict
from streamlint.pictures import lanes, words
from streamlint.pictures.arrows import arrows
from streamlint.pictures.focus import MOST, Focus, chosen, focus_of, telling
from streamlint.pictures.model import Break, Fault, Missing, Operation, Part, Picture
from streamlint.trace import OpId, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.files import SourceFiles
    from streamlint.finding import Occurrence
    from streamlint.rules.base import Judged
    from streamlint.source import Span
    from streamlint.trace import Op, Trace

MOST_WHOLE = 40
"""Operations that the picture of a whole function shows, if nothing is found in it."""
MOST_EACH = 6
"""The same for each operation of a pair, if there are many pairs."""


@frozen()
class Scene:
    """A trace with what is looked at in it: what pictures and stories are made from."""

    judged: Judged
    focus: Focus
    shown: tuple[OpId, ...]
    sources: SourceFiles

    def letter(self, number: OpId) -> str:
        """A and B for the pair of a finding."""
        place = self.focus.racing.index(number)
        return chr(ord("A") + place) if place < 26 else str(place + 1)

    def is_unordered(self, earlier: OpId, later: OpId) -> bool:
        """Whether nothing orders the two, not even something that is in doubt."""
        return self.judged.hb.ordered(earlier, later).verdict is not Verdict.UNKNOWN

    def letters_in(self, path: str) -> dict[int, str]:
        """The letters of a file by its lines."""
        found: dict[int, str] = {}
        for number in self.focus.racing:
            span = self.judged.op(number).at.span
            if span.path == path:
                found[span.line] = found.get(span.line, "") + self.letter(number)
        return found


def scene_of(evidence: Occurrence, sources: SourceFiles, last: Scene | None = None) -> Scene:
    """The scene of one finding.

    ``last`` is that of the finding before: those of one function have one trace, most often, and it is
    ordered once.
    """
    known = last.judged if last is not None else None
    judged = known if known is not None and known.trace is evidence.trace else judge(evidence.trace)
    judged = judged.seen_from(evidence.later, evidence.earlier)
    focus = focus_of(judged, evidence)
    return Scene(judged, focus, tuple(chosen(judged, focus)), sources)


def whole_scene(
    trace: Trace, found: Sequence[Occurrence], sources: SourceFiles, *, everything: bool = False
) -> Scene:
    """The scene of all findings of one path; with ``everything`` no operation is left out."""
    judged = judge(trace)
    focus = Focus()
    for evidence in found:
        focus |= focus_of(judged, evidence)
    shown = telling(judged, focus)
    most = max(MOST, MOST_EACH * len(focus.racing)) if focus.racing else MOST_WHOLE
    if not everything and len(shown) > most:
        shown = chosen(judged, focus, most)
    return Scene(judged, focus, tuple(shown), sources)


def picture(scene: Scene, title: str, subtitle: str) -> Picture:
    judged, shown = scene.judged, scene.shown
    keys = [lanes.key_of(judged.op(number)) for number in shown]
    order = sorted(set(keys))
    columns = [order.index(key) for key in keys]
    threads = frozenset(index for index, key in enumerate(order) if lanes.is_thread(judged, key))
    place = {number: index for index, number in enumerate(shown)}
    files = {judged.op(number).at.span.path for number in shown}
    return Picture(
        title=title,
        subtitle=subtitle,
        lanes=tuple(lanes.lane(judged, key, order) for key in order),
        operations=tuple(
            _operation(scene, number, row, columns[row], len(files) > 1) for row, number in enumerate(shown)
        ),
        arrows=arrows(judged.hb, shown, columns, threads),
        missing=tuple(Missing(place[a], place[b], fault) for a, b, fault in _faults(scene)),
        breaks=_breaks(judged, shown),
        notes=tuple(_notes(scene)),
    )


def _faults(scene: Scene) -> Iterator[tuple[OpId, OpId, Fault]]:
    for a, b in scene.focus.pairs:
        yield a, b, Fault.UNORDERED if scene.is_unordered(a, b) else Fault.DOUBTFUL
    for a, b in scene.focus.circles:
        yield a, b, Fault.CIRCLE


def _operation(scene: Scene, number: OpId, row: int, lane: int, several: bool) -> Operation:
    judged, op = scene.judged, scene.judged.op(number)
    code = words.code_of(op, scene.sources)
    span = op.at.span
    racing = number in scene.focus.racing
    part = Part.RACING if racing else Part.OTHER if op.role is Role.CODE else Part.UNSEEN
    return Operation(
        lane=lane,
        row=row,
        last=row,
        code=code,
        effect=words.effect_of(judged, number, scene.focus.buffers_at(number)),
        place=_place(span, several=several) if op.role is Role.CODE else "",
        hint="\n".join(_hint(op, code)),
        letter=scene.letter(number) if racing else "",
        part=part,
    )


def _place(span: Span, *, several: bool) -> str:
    name, cell = split_path(span.path)
    if not several:
        return str(span.line)
    return f"{name.rpartition('/')[2] if cell is None else f'cell {cell}'}:{span.line}"


def _hint(op: Op, code: str) -> list[str]:
    """What stands on no card: all of the expression, the function, who called it, what had to be assumed."""
    span = op.at.span
    function = f" in {op.at.function}" if op.at.function else ""
    called = [f"called from {call}" for call in reversed(op.at.calls)]
    return [code, f"{span}{function}", *called, *sorted(doubt.value for doubt in op.doubts)]


def _breaks(judged: Judged, shown: Sequence[OpId]) -> tuple[Break, ...]:
    """Where another call from outside begins, if there is more than one."""
    calls = [judged.op(number).at.call for number in shown]
    if len(set(calls)) < 2:
        return ()
    names = {op.at.call: op.at.function for op in judged.trace.ops if op.role is Role.BEFORE_CALL}
    starts = [row for row, call in enumerate(calls) if row == 0 or call != calls[row - 1]]
    return tuple(Break(row, _call(calls[row], names)) for row in starts)


def _call(call: int, entries: dict[int, str]) -> str:
    """``call 2 of `Ring.read```: entries that call two methods name both, ``Ring.write, then read``."""
    if not call:
        return "before the first call"
    names = entries.get(call, "").split(", then ")
    name = names[min(call, len(names)) - 1]
    return f"call {call} of `{name}`" if name else f"call {call}"


def _notes(scene: Scene) -> list[str]:
    trace = scene.judged.trace
    conditions = words.conditions(trace)
    left = len(set(telling(scene.judged, scene.focus)) - set(scene.shown))
    notes = [f"This path was taken: {'; '.join(conditions)}."] if conditions else []
    if left:
        were = "1 operation is" if left == 1 else f"{left} operations are"
        notes.append(f"{were} left out.")
    return notes
