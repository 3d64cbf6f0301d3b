"""Current streams of devices of which only is known what names them.

CuPy keeps a current stream for each device. ``with Device(d), lane: with Device(x.device.id): x.get()`` is on
``lane`` if ``x`` lives on ``d``, and on that device's own stream otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.trace import Copy, Doubt, Launch, Op, StreamChoice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamlint.interp.state.symbols import Symbol
    from streamlint.trace import StreamId


def doubted(op: Op, device: Symbol | None, selected_on: Mapping[StreamId, Symbol | None]) -> Op:
    """Work on the current stream, in doubt where that was selected while something else named the device."""
    if device is None or not isinstance(op, (Launch, Copy)) or op.choice is StreamChoice.NAMED:
        return op
    if selected_on.get(op.stream, device) is device:
        return op
    return replace(op, doubts=op.doubts | {Doubt.DEVICE})
