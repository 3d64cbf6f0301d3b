"""Pictures in Mermaid's flowchart language, which Markdown viewers draw."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from streamlint.characters import for_xml
from streamlint.pictures.model import Fault, How

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.pictures.model import Arrow, Operation, Picture


def render(pictures: Sequence[Picture]) -> str:
    """One flowchart for each picture."""
    return "\n\n".join("\n".join(_flowchart(picture)) for picture in pictures) + "\n"


def _flowchart(picture: Picture) -> Iterator[str]:
    yield "flowchart TD"
    for lane, each in enumerate(picture.lanes):
        label = f"{each.name} ({each.kind})" if each.kind else each.name
        here = [number for number, one in enumerate(picture.operations) if one.lane == lane]
        yield f"  subgraph lane{lane}[{quoted(label.replace('`', ''))}]"
        yield from (f"    op{number}[{quoted(_label(picture.operations[number]))}]" for number in here)
        # Within a lane the order is that of the rows.
        yield from (f"    op{a} --> op{b}" for a, b in itertools.pairwise(here))
        yield "  end"
    for arrow in picture.arrows:
        yield f"  op{arrow.earlier} {_link(arrow)} op{arrow.later}"
    for pair in picture.missing:
        head = "->" if pair.fault is Fault.CIRCLE else "-x"
        both = head.replace("->", "<") if pair.fault is Fault.CIRCLE else ""
        yield f"  op{pair.earlier} {both}-. {quoted(pair.fault.value)} .{head} op{pair.later}"
    # Links are styled by their number in the order of appearance.
    within = len(picture.operations) - len({each.lane for each in picture.operations})
    first = within + len(picture.arrows)
    for number in range(first, first + len(picture.missing)):
        yield f"  linkStyle {number} stroke:red,color:red"


def _label(each: Operation) -> str:
    letter = f"{each.letter} " if each.letter else ""
    place = f"{each.place}: " if each.place else ""
    return f"{letter}{place}{each.code}\n{each.effect}".replace("`", "")


def _link(arrow: Arrow) -> str:
    match arrow.how:
        case How.WAITS:
            return "==>"
        case How.ISSUED:
            return "-->"
        case How.MAYBE:
            return "-.->"


def quoted(text: str) -> str:
    """A Mermaid string: it has no escapes but character references."""
    for char, name in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;"), ("`", "&#96;")):
        text = text.replace(char, name)
    return f'"{"<br>".join(for_xml(text).split(chr(10)))}"'
