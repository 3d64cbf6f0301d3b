"""The schedule that the gate forces, as a picture.

What is drawn is the trace's prediction in the order of the racing run. Nobody measures when the operations
begin and end, so time runs down and has no scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.judging.judge import judge
from streamlint.order.hb import Verdict
from streamlint.pictures.build import Scene, picture
from streamlint.pictures.focus import Focus
from streamlint.pictures.model import Operation, Part

if TYPE_CHECKING:
    from streamlint.confirm.reproduce.slicing import Slice
    from streamlint.files import SourceFiles
    from streamlint.pictures.model import Picture


def timeline(piece: Slice, sources: SourceFiles, gate: str) -> Picture:
    """The racing run of a slice; ``gate`` says how long it holds.

    All that does not wait for the earlier operation runs as issued, the later one among it. Then the
    gate ends.
    """
    judged = judge(piece.trace)
    pair = (piece.earlier, piece.later)
    focus = Focus(pair, (pair,), frozenset({piece.buffer}))
    drawn = picture(Scene(judged, focus, piece.ops, sources), "B runs while A is held back", "")
    held = piece.ops.index(piece.earlier)
    late = {
        number
        for number, op in enumerate(piece.ops)
        if op == piece.earlier or judged.hb.ordered(piece.earlier, op).verdict is Verdict.YES
    }
    early = [number for number in range(len(piece.ops)) if number not in late]
    before = [number for number in early if number < held]
    # The gate begins in a row of its own, after what was issued before it.
    rows = {number: row for row, number in enumerate(before)}
    rows |= {number: row for row, number in enumerate(early[len(before) :], len(before) + 1)}
    rows |= {number: row for row, number in enumerate(sorted(late), len(early) + 1)}
    operations = [
        replace(each, row=rows[number], last=rows[number]) for number, each in enumerate(drawn.operations)
    ]
    lane = drawn.operations[held].lane
    hold = Operation(
        lane=lane,
        row=len(before),
        last=len(early),
        code="held back",
        effect=gate,
        hint="the stream is held back",
        part=Part.HELD,
    )
    return replace(drawn, operations=(*operations, hold), breaks=(), notes=())
