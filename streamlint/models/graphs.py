"""Effects on stream captures and graphs: a part of the union in ``models/schema.py``."""

from __future__ import annotations

from typing import TypeAlias

from streamlint.frozen import frozen


@frozen()
class EnterCapture:
    """Returns a context manager that captures ``stream`` into ``graph``.

    Without ``stream`` PyTorch captures one of its own, Warp the current one.
    """

    stream: str = "stream"
    graph: str | None = "cuda_graph"
    from_pool: str | None = "pool"
    """Whose memory the graph may use."""


@frozen()
class CaptureStarts:
    stream: str = "self"
    graph: str | None = None
    """A graph that exists and gets what is captured."""


@frozen()
class SplitsCapture:
    """Returns ``self`` and further streams of the same capture, ``count`` in all, which follow its work."""

    count: str = "count"


@frozen()
class JoinsCaptures:
    """Makes the first of ``streams`` wait for the others, and returns it."""

    streams: str


@frozen()
class CaptureEnds:
    """Returns a graph with what was captured on ``stream``."""

    stream: str = "self"


@frozen()
class NewGraph:
    """Returns a graph that nothing was captured into."""


@frozen()
class InstantiatesGraph:
    """Returns a new executable graph of ``graph``, a graph or the stream that was captured last."""

    graph: str


@frozen()
class GraphsCallables:
    """Returns callables that replay a graph of ``callables`` and give its static output."""

    callables: str


@frozen()
class LaunchesGraph:
    """Runs what was captured into ``graph``, on ``stream`` (``None``: the current one)."""

    graph: str = "self"
    stream: str | None = "stream"


GraphEffect: TypeAlias = (
    EnterCapture
    | CaptureStarts
    | SplitsCapture
    | JoinsCaptures
    | CaptureEnds
    | NewGraph
    | InstantiatesGraph
    | GraphsCallables
    | LaunchesGraph
)
