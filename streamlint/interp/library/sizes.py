"""Results whose size depends on the data: the host waits for what is computed, to know how large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import flavors
from streamlint.interp.state.values import BufferV, Value
from streamlint.trace import Purpose, SyncStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def as_mask(m: Machine, made: Value) -> Value:
    """Notes that a tensor holds truth values."""
    if isinstance(made, BufferV):
        m.forms.masks.add(made.id)
    return made


def waits(m: Machine, views: Sequence[BufferV], span: Span, name: str) -> None:
    """The host waits for the current stream, as the size of a result depends on what is computed there."""
    if views and not all(m.space(view).on_host for view in views):
        stream = m.current_stream(flavors.library(m, views[0]), m.buffers[views[0].id].device)
        m.emit(SyncStream(m.site(span), m.lane, stream=stream.id, name=name, purpose=Purpose.VALUES))
