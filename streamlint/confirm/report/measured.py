"""What a GPU measured of a racing run, as a picture: time runs to the right, and has a scale.

A delay takes a hundred times as long as most operations, so those are drawn a few points wide where they
were; a list below has the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamlint.pictures.page import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.confirm.run.seen import Span

_LEFT, _WIDTH, _RIGHT = 120, 620, 40
_ROW, _TOP, _BAR = 46, 30, 20
_NARROWEST: Final = 4
_WORDS: Final = {"earlier": "A", "later": "B", "gate": "held back"}
_TICKS: Final = 5


def drawn(spans: Sequence[Span]) -> str:
    """The bars of the host and of each stream, from the first begin to the last end."""
    lanes = sorted({one.lane for one in spans}, key=lambda lane: (lane != "host", lane))
    begin, end = min(one.start for one in spans), max(one.end for one in spans)
    scale = _WIDTH / max(1, end - begin)
    width, height = _LEFT + _WIDTH + _RIGHT, _TOP + _ROW * len(lanes) + 34
    lines = [
        f'<svg class="measured" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="when the gate and both operations were under way">'
    ]
    for row, lane in enumerate(lanes):
        y = _TOP + _ROW * row
        lines.append(f'<text x="{_LEFT - 12}" y="{y + 15}" text-anchor="end">{escaped(lane)}</text>')
        lines.append(f'<path class="line" d="M{_LEFT} {y + _BAR + 6}h{_WIDTH}"/>')
        named: set[str] = set()
        for one in sorted((one for one in spans if one.lane == lane), key=lambda one: one.part != "gate"):
            at = _LEFT + (one.start - begin) * scale
            lines += _bar(one, at, y, (one.end - one.start) * scale, named=one.part not in named)
            named.add(one.part)
    lines += _axis(begin, end, _TOP + _ROW * len(lanes))
    return "\n".join([*lines, "</svg>"])


def _bar(one: Span, x: float, y: int, width: float, *, named: bool) -> Iterator[str]:
    wide, words = max(width, _NARROWEST), _WORDS[one.part]
    style, at = ("", y + 14) if one.part == "gate" else (' class="letter"', y - 5)
    where = " host" if one.lane == "host" else ""
    yield f'<g class="{one.part}{where}"><title>{escaped(f"{words} {one.name}".strip())}</title>'
    yield f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_BAR}" rx="2"/>'
    if named:
        yield f'<text{style} x="{x + wide / 2:.1f}" y="{at}" text-anchor="middle">{words}</text>'
    yield "</g>"


def _axis(begin: int, end: int, y: int) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        x = _LEFT + _WIDTH * tick / _TICKS
        text = f"{(end - begin) * tick / _TICKS / 1e6:.3g} ms"
        yield f'<path class="line" d="M{x:.1f} {y}v5"/>'
        yield f'<text class="muted" x="{x:.1f}" y="{y + 20}" text-anchor="middle">{text}</text>'


def table(spans: Sequence[Span]) -> Iterator[str]:
    """The numbers, in milliseconds from the first of them."""
    begin = min(one.start for one in spans)
    titles = "".join(f"<th>{title}</th>" for title in ("What", "Where", "Begin", "End"))
    yield f'<div class="wide"><table class="spans"><thead><tr>{titles}</tr></thead><tbody>'
    for one in sorted(spans, key=lambda one: one.start):
        what = escaped(_WORDS[one.part]) + (f" <code>{escaped(one.name)}</code>" if one.name else "")
        numbers = "".join(f"<td>{(time - begin) / 1e6:.3f} ms</td>" for time in (one.start, one.end))
        yield f"<tr><td>{what}</td><td>{escaped(one.lane)}</td>{numbers}</tr>"
    yield "</tbody></table></div>"


def came_first(spans: Sequence[Span]) -> bool:
    """Whether all of the later operation was over before the earlier one began on the device."""
    earlier = [one.start for one in spans if one.part == "earlier" and one.lane != "host"]
    all_later = [one for one in spans if one.part == "later"]
    # An access of the host is nothing that the device does.
    later = [one for one in all_later if one.lane != "host"] or all_later
    return bool(earlier and later) and max(one.end for one in later) <= min(earlier)
