"""Pictures in Mermaid's flowchart language, which Markdown viewers draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.hb import EdgeKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.graph.picture import Picture
    from streamlint.order.hb import Edge

_PLAIN = (EdgeKind.STREAM, EdgeKind.LANE, EdgeKind.ISSUE)


def render(pictures: Sequence[Picture]) -> str:
    """One flowchart for each picture."""
    return "\n\n".join("\n".join(_flowchart(picture)) for picture in pictures)


def _flowchart(picture: Picture) -> Iterator[str]:
    yield "flowchart TD"
    yield f"  %% {' and '.join([picture.entry, *picture.path])}"
    for column in picture.columns:
        yield f"  subgraph {column.key}[{quoted(column.label)}]"
        for node in column.nodes:
            yield f"    op{node.op}[{quoted(f'{node.line}: {node.title}')}]"
        yield "  end"
    for edge in picture.edges:
        yield f"  op{edge.earlier} {_arrow(edge)} op{edge.later}"
    for race in picture.races:
        yield f"  op{race.earlier} <-. {quoted(race.label)} .-> op{race.later}"
    # Links are styled by their number in the order of appearance.
    for number in range(len(picture.edges), len(picture.edges) + len(picture.races)):
        yield f"  linkStyle {number} stroke:red,color:red,stroke-dasharray:5"


def _arrow(edge: Edge) -> str:
    if edge.doubts:
        return "-.->"
    return "-->" if edge.kind in _PLAIN else f"-->|{edge.kind.value}|"


def quoted(text: str) -> str:
    """A Mermaid string: it has no escapes but character references."""
    return '"' + text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;") + '"'
