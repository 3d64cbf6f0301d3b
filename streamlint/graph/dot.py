"""Pictures in Graphviz's DOT language; ``dot -Tpng`` draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.order.hb import EdgeKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamlint.graph.picture import Column, Picture
    from streamlint.order.hb import Edge

_SHAPES = {"HostAccess": "ellipse", "Record": "cds", "Wait": "cds", "Callback": "component"}


def render(pictures: Sequence[Picture]) -> str:
    """One ``digraph`` for each picture."""
    return "\n".join("\n".join(_digraph(picture)) for picture in pictures)


def _digraph(picture: Picture) -> Iterator[str]:
    title = " and ".join([picture.entry, *picture.path])
    yield f"digraph {quoted(picture.entry or 'trace')} {{"
    yield f"  label={quoted(title)}; labelloc=t; newrank=true; compound=true;"
    yield '  node [shape=box, fontname="Helvetica", fontsize=10];'
    yield '  edge [fontname="Helvetica", fontsize=9];'
    for column in picture.columns:
        yield from _cluster(column)
    for edge in picture.edges:
        yield f"  op{edge.earlier} -> op{edge.later} [{_style(edge)}];"
    for race in picture.races:
        # Without constraint=false an edge that says "not ordered" would set the order of the rows.
        width = "2" if race.sure else "1"
        yield (
            f"  op{race.earlier} -> op{race.later} [color=red, fontcolor=red, style=dashed, dir=both, "
            f"penwidth={width}, constraint=false, label={quoted(race.label)}];"
        )
    yield "}"


def _cluster(column: Column) -> Iterator[str]:
    yield f"  subgraph cluster_{column.key} {{"
    yield f"    label={quoted(column.label)}; style=rounded; color=gray60;"
    for node in column.nodes:
        label = f"{node.line}: {node.title}"
        shape = _SHAPES.get(node.kind, "box")
        tooltip = f", tooltip={quoted(node.text)}" if node.text else ""
        yield f"    op{node.op} [label={quoted(label)}{tooltip}, shape={shape}];"
    yield "  }"


def _style(edge: Edge) -> str:
    parts = []
    match edge.kind:
        case EdgeKind.STREAM | EdgeKind.LANE:
            parts.append("color=black, weight=10")
        case EdgeKind.ISSUE:
            parts.append("color=gray70, arrowsize=0.6")
        case EdgeKind.MAYBE:
            parts.append("color=gray70, style=dotted")
        case EdgeKind.WAIT | EdgeKind.SYNC | EdgeKind.LEGACY | EdgeKind.CALLBACK | EdgeKind.THREAD:
            parts.append(f"color=blue, fontcolor=blue, label={quoted(edge.kind.value)}")
    if edge.doubts and edge.kind is not EdgeKind.MAYBE:
        parts.append("style=dotted")
    return ", ".join(parts)


def quoted(text: str) -> str:
    """A DOT string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
