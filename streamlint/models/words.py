"""How libraries write what orders two streams, out of the rows of their tables: for help and for fixes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.models.schema import (
    CurrentStream,
    DefaultStream,
    KeepsAlive,
    Lib,
    Records,
    StreamWaits,
    StreamWaitsEvent,
    StreamWaitsStream,
)
from streamlint.trace import CURRENT_DEVICE, DeviceId, StreamKind, Words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.models.schema import Api, Effect


CHOSEN_BY_CALLERS = frozenset({Lib.TORCH, Lib.CUPY})
"""Libraries with a current stream that callers may have chosen; Warp has one of its own, the others use the
default stream."""

ON_STREAMS_OF_TORCH = frozenset({Lib.DISTRIBUTED, Lib.FUNCTIONAL, Lib.DEEP_EP})
"""Libraries whose current stream is PyTorch's."""

PER_THREAD = frozenset({Lib.RAFT, Lib.CUVS})
"""Libraries whose calls without a stream run on the per-thread default stream."""


@cache
def of(lib: Lib) -> Words | None:
    """What a library writes; None if no single call makes one of its streams wait for another."""
    table = models.BY_LIB[lib]
    wait = _wait(table.stream_methods)
    if not wait:
        return None
    home = (*table.homes, *table.modules)[0]
    current, default = (_row(table.functions, effect) for effect in (CurrentStream, DefaultStream))
    keeps = _row(table.buffer_methods, KeepsAlive)
    return Words(
        library=lib.product,
        wait=wait,
        current=f"{home}.{current.name}()" if current is not None and lib in CHOSEN_BY_CALLERS else "",
        default=f"{home}.{default.name}()" if default is not None else "",
        keep=f"{{memory}}.{keeps.name}({{stream}})" if keeps is not None else "",
    )


def _wait(methods: tuple[Api, ...]) -> str:
    for effect in (StreamWaitsStream, StreamWaits):
        waits = _row(methods, effect, of_stream="self")
        if waits is not None:
            return f"{{second}}.{waits.name}({{first}})"
    waits, records = _row(methods, StreamWaitsEvent, of_stream="self"), _row(methods, Records)
    return "" if waits is None or records is None else f"{{second}}.{waits.name}({{first}}.{records.name}())"


def wait_of_handle(lib: Lib) -> str:
    """The method of what a library's collectives give that makes the current stream wait for it."""
    row = _row(models.BY_LIB[lib].event_methods, StreamWaitsEvent)
    return row.name if row is not None else "wait"


def _row(rows: Iterable[Api], kind: type[Effect], of_stream: str | None = None) -> Api | None:
    """The first row with an effect; ``of_stream``: on the stream of this parameter."""
    for api in rows:
        for effect in api.effects:
            if isinstance(effect, kind) and of_stream in (None, getattr(effect, "stream", None)):
                return api
    return None


_DEFAULTS = {
    StreamKind.CURRENT: "the current stream",
    StreamKind.PER_THREAD: "the per-thread default stream",
}


def of_default_stream(kind: StreamKind, device: DeviceId) -> str:
    """What a default stream of a device is called."""
    name = _DEFAULTS.get(kind, "the default stream")
    return name if device == CURRENT_DEVICE else f"{name} of device {device}"
