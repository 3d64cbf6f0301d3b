"""Threads that ask again and again for a number: ``while self.shown == self.written: time.sleep(0.001)``.

What a thread does stands where it starts. One that finds nothing to do there goes on when other code has set
a number that it asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state.values import ConstV, HeapV, Value
from streamlint.trace import MAIN_LANE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.put_off import ThreadBody
    from streamlint.trace import LaneId


def asks(m: Machine, value: HeapV, name: str, known: Value) -> None:
    """Code reads an attribute that holds a number."""
    if m.lane != MAIN_LANE and isinstance(known, ConstV) and type(known.value) is int:
        m.asked_aside.setdefault(m.lane, {})[value.id, name] = None


def goes_on(m: Machine, body: ThreadBody, lane: LaneId, *, idle: bool) -> None:
    """A thread has come to the end of what is seen of it, and has done nothing if it is ``idle``.

    One that was told of a number before has something to do with the next one, too.
    """
    if idle or body.told_by:
        asked = tuple(m.asked_aside.get(lane, ()))
        body = replace(body, told_by=(*body.told_by, *(key for key in asked if key not in body.told_by)))
        if body.told_by:
            m.polling[lane] = body


def told(m: Machine, value: HeapV, name: str) -> Iterator[ThreadBody]:
    """The threads that ask for an attribute, which another one has set."""
    for lane, body in [*m.polling.items()]:
        if (value.id, name) in body.told_by and m.threads.get(lane, lane) != m.threads.get(m.lane, m.lane):
            del m.polling[lane]
            yield body
