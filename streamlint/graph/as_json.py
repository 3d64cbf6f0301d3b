"""Pictures as JSON: the node-link format of networkx, one graph for each trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.graph.picture import Picture


def render(pictures: Sequence[Picture]) -> str:
    """``{"version": 1, "graphs": [...]}``; edges with ``kind`` ``"conflict"`` order nothing."""
    return json.dumps({"version": 1, "graphs": [_graph(picture) for picture in pictures]}, indent=2)


def _graph(picture: Picture) -> dict[str, Any]:
    # Two ops can be ordered for several reasons.
    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph(entry=picture.entry, path=list(picture.path))
    for column in picture.columns:
        for node in column.nodes:
            graph.add_node(
                int(node.op),
                column=column.label,
                kind=node.kind,
                title=node.title,
                text=node.text,
                path=node.path,
                line=node.line,
            )
    for edge in picture.edges:
        doubts = sorted(doubt.value for doubt in edge.doubts)
        graph.add_edge(int(edge.earlier), int(edge.later), kind=edge.kind.value, doubts=doubts)
    for race in picture.races:
        attributes = {"kind": "conflict", "label": race.label, "sure": race.sure}
        graph.add_edge(int(race.earlier), int(race.later), **attributes)
    data: dict[str, Any] = nx.node_link_data(graph, edges="edges")
    return data
