"""Which names order, record, wait, allocate or launch, as the tables say it: the only place that knows.

A name stands for all rows that have it: ``wait`` is a method of events, streams and handles. What a call does
is decided by its row (``find_function``, ``find_method``); these sets tell from identifiers alone which code
is worth running, and which text may order what no path has come by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.models import FRAMEWORKS, graphs, methods_of
from streamlint.models import schema as fx
from streamlint.models.schema import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.models.schema import Api, Effect


_PYTHONS = frozenset(name for kind in (dict, list, set, str, bytes, tuple, int) for name in dir(kind))
"""``get`` waits for a future of KvikIO's, and nearly always looks into a dict: such names tell nothing."""


def _rows() -> Iterator[Api]:
    for framework in FRAMEWORKS:
        yield from framework.functions
        for role in Role:
            yield from methods_of(framework, role)


def _names(*kinds: type[Effect], only: Callable[[Effect], bool] = lambda _: True) -> frozenset[str]:
    """The last names of all calls with one of these effects."""
    return (
        frozenset(
            api.name.rpartition(".")[2]
            for api in _rows()
            if any(isinstance(effect, kinds) and only(effect) for effect in api.effects)
        )
        - _PYTHONS
    )


MAKES_STREAM = _names(fx.NewStream, fx.ForeignStream)
MAKES_EVENT = _names(fx.NewEvent)
MAKES_GRAPH = _names(graphs.NewGraph, graphs.GraphsCallables)
GIVES_STREAM = _names(fx.CurrentStream, fx.DefaultStream)
ENTERS_STREAM = _names(fx.EnterStream)
CAPTURES = _names(graphs.EnterCapture, graphs.CaptureStarts, graphs.CaptureEnds)
RECORDS = _names(fx.Records)
"""An event is recorded on a stream, or a stream records one."""
STREAM_WAITS = _names(fx.StreamWaitsStream, fx.StreamWaitsEvent, fx.StreamWaits)
HOST_WAITS_STREAM = _names(fx.HostWaitsStream)
HOST_WAITS_EVENT = _names(fx.HostWaitsEvent)
HOST_WAITS = HOST_WAITS_STREAM | HOST_WAITS_EVENT | _names(fx.HostWaitsDevice, fx.SyncOnExit)
POLLS = _names(fx.Queries)
"""Asks whether work is complete: true is a synchronization."""
WAITS_FOR_EVENT = _names(fx.StreamWaitsEvent, fx.StreamWaits, fx.HostWaitsEvent)
KEEPS_ALIVE = _names(fx.KeepsAlive)
CALLS_BACK = _names(fx.HostCallback)
ORDERS = STREAM_WAITS | HOST_WAITS | POLLS
"""What makes a stream or the host wait."""
