"""Memory of a library's own that it hands out and takes back: outputs of a pipeline of DALI's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import background
from streamlint.interp.state import flavors
from streamlint.interp.state.values import ConstV, symbol_of
from streamlint.trace import Access, Doubt, Launch, Mode, Origin, Space

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.interp.state.values import Value

_NONE = frozenset[Doubt]()
_ASSUMED = frozenset({Doubt.ASSUMED})


def lend(call: Call) -> Value:
    """``images, labels = pipe.share_outputs()``: which of them is asked is not told apart."""
    m = call.m
    made = m.new_buffer("", Space.DEVICE, Origin.RESULT, flavors.FLAVORS[call.lib], None)
    m.lent.setdefault(symbol_of(call.value("self")), []).append(made)
    outputs = m.new_list(())
    m.heap[outputs.id].open, m.heap[outputs.id].sample = True, made
    return outputs


def take_back(call: Call, unless: str) -> None:
    """``pipe.release_outputs()``: the next batch goes where they were, whoever still reads them."""
    m = call.m
    lent = m.lent.pop(symbol_of(call.value("self")), [])
    if not lent or call.value(unless) == ConstV(True):
        return
    known = call.value(unless) == ConstV(False)
    m.emit(
        Launch(
            m.site(call.span),
            m.lane,
            _NONE if known else _ASSUMED,
            stream=background.own_stream(call),
            accesses=tuple(Access(view.id, Mode.WRITE) for view in lent),
            name=call.name(),
            library=call.lib.product,
        )
    )
