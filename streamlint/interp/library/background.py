"""Work that heeds no stream: threads that fill device memory, network cards that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.trace import (
    Access,
    HostAccess,
    Launch,
    Mode,
    Record,
    Space,
    StreamKind,
    SyncStream,
)

if TYPE_CHECKING:
    from streamlint.interp.library.effects import Call
    from streamlint.interp.state.values import EventV
    from streamlint.models import schema as fx


_OF_THE_GPU = frozenset({Space.DEVICE, Space.MANAGED, Space.PINNED})


def run(call: Call, effect: fx.Background) -> EventV | None:
    """Starts work aside; the result is what to wait for.

    It is modelled as a non-blocking stream of its own, which nothing orders but what the host knew before.
    """
    m, span = call.m, call.span
    if effect.after_default:
        before = m.default(m.default_stream, call.lib).id
        m.emit(SyncStream(m.site(span), m.lane, stream=before, name=call.name()))
    used = [
        Access(view.id, mode, view.region)
        for names, mode in ((effect.reads, Mode.READ), (effect.writes, Mode.WRITE))
        for name in names
        for view in call.buffers(name)
        if not effect.only_gpu or m.space(view) in _OF_THE_GPU
    ]
    if effect.waits and all(m.buffers[access.buffer].space.on_host for access in used):
        m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(used), name=call.name()))
        return None
    stream = m.new_stream(StreamKind.NON_BLOCKING, call.name(), span, call.lib).id
    m.emit(Launch(m.site(span), m.lane, stream=stream, accesses=tuple(used), name=call.name()))
    if effect.waits:
        m.emit(SyncStream(m.site(span), m.lane, stream=stream, name=call.name()))
        return None
    done = m.new_event(f"the result of {call.name()}", span, call.lib)
    m.emit(Record(m.site(span), m.lane, stream=stream, event=done.id))
    return done
