"""Whether the program captures a graph with PyTorch, whatever stream is current."""

from __future__ import annotations

import functools
from typing import Any

_followed: set[type] = set()
_begun: list[int] = []
"""Captures that have begun and not ended, by the identity of their graph."""


def under_way(torch: Any) -> bool:  # noqa: ANN401
    """Also in ``with torch.cuda.graph(g): with torch.cuda.stream(side):``, where ``side`` is no part of it.

    To wait for the device there makes the capture fail, on whatever stream it is.
    """
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if graph is not None and graph not in _followed:
        _followed.add(graph)
        _follow(graph)
    return bool(_begun)


def _follow(graph: Any) -> None:  # noqa: ANN401
    begin, end = graph.capture_begin, graph.capture_end

    @functools.wraps(begin)
    def begins(self: object, *arguments: object, **named: object) -> object:
        result = begin(self, *arguments, **named)
        _begun.append(id(self))
        return result

    @functools.wraps(end)
    def ends(self: object, *arguments: object, **named: object) -> object:
        try:
            return end(self, *arguments, **named)
        finally:
            _begun[:] = [one for one in _begun if one != id(self)]

    graph.capture_begin, graph.capture_end = begins, ends
