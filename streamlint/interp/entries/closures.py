"""Functions inside of functions that nothing seen calls: hooks, callbacks that a library keeps.

``p.register_post_accumulate_grad_hook(hook)``: when ``hook`` runs, and after what, is somebody else's.
It is run by itself, when everything that was queued before is complete.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.python import functions, unseen_caller
from streamlint.interp.state import lifetime
from streamlint.interp.state.ends import Jumped, PathEnds, Returned
from streamlint.trace import Purpose, Role, SyncDevice

if TYPE_CHECKING:
    from streamlint.interp.entries.runs import Entry
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import FuncV

PATHS = 4
"""Paths explored for the closures of an entry."""


def entry_of(defining: Entry, names: frozenset[str]) -> Entry:
    """An entry that runs another one, the closures with these names that it left, and what those leave."""

    def body(m: Machine) -> None:
        with suppress(Returned, PathEnds, Jumped):
            defining.body(m)
        left = functions.uncalled(m)
        for name, made in left.items():
            if name in names:
                _run(m, made)
        # def on_stream(blocking): the decorator that it gives is called, and so is what that gives.
        for name, made in functions.uncalled(m).items():
            if name not in left:
                _run(m, made)

    label = f"{defining.label}, then what it defines"
    return replace(defining, label=label, body=body, paths=min(PATHS, defining.paths))


def _run(m: Machine, made: FuncV) -> None:
    for device in dict.fromkeys(stream.device for stream in m.streams.values()):
        m.emit(
            SyncDevice(
                m.site(made.function.span),
                m.lane,
                role=Role.SET_UP,
                device=device,
                name="set up",
                purpose=Purpose.ASIDE,
            )
        )
    # A hook on a gradient runs in the middle of another backward pass.
    m.last_backward = None
    # Who calls it has it, and will call it again.
    with suppress(PathEnds, Jumped), lifetime.holding(m, made):
        unseen_caller.call_outside(m, made, m.call + 1)
