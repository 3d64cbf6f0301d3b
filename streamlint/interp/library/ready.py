"""Memory that the host waits for by itself: who has it knows nothing of the streams that write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import tensors
from streamlint.interp.state import elements, names
from streamlint.interp.state.values import Flavor, SymV
from streamlint.trace import Copy, Evidence, Launch, SyncStream

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.interp.state.machine import Machine
    from streamlint.trace import BufferId, StreamId


def wait_for(call: Call, what: str) -> None:
    """``jax.block_until_ready((q, k))``: the host waits for the streams on which these were written last."""
    m = call.m
    given = call.value(what)
    for value in elements.listed(m, given) or [given]:
        if isinstance(one := names.settle(m, value), SymV):
            tensors.as_buffer(m, one, Flavor.OPAQUE, Evidence.INFERRED)
    waited = tensors.buffers_in(m, [given], data=True, taken=True)
    streams = dict.fromkeys(
        stream for view in waited for stream in _written_last(m, view.id) if not m.space(view).on_host
    )
    for stream in streams:
        m.emit(SyncStream(m.site(call.span), m.lane, stream=stream, name=call.name()))


def _written_last(m: Machine, buffer: BufferId) -> list[StreamId]:
    """The stream of the last write of some memory; of what callers gave, the one that they work on."""
    for op in reversed(m.ops):
        if isinstance(op, (Launch, Copy)) and any(
            access.buffer == buffer and access.mode.writes for access in op.accesses
        ):
            return [op.stream]
    pending = [m.ops[number] for number, found in m.pending.items() if any(a.buffer == buffer for a in found)]
    return [op.stream for op in pending[-1:] if isinstance(op, Launch)]
