"""What a pipeline of DALI's hands out and takes back, its own memory, and what it asks a source for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import classes
from streamlint.interp.library import background, memory
from streamlint.interp.state import flavors
from streamlint.interp.state.values import FALSE, NONE, ConstV, FuncV, HeapV, symbol_of
from streamlint.models import schema as fx
from streamlint.trace import Access, Doubt, Launch, Mode, Origin, Space

if TYPE_CHECKING:
    from streamlint.interp.library.call import Call
    from streamlint.interp.state.values import Value

_SURE = frozenset[Doubt]()
_ASSUMED = frozenset({Doubt.ASSUMED})
ASKED = 2
"""How often a source is asked: what one batch does to the next."""


def lend(call: Call) -> Value:
    """``images, labels = pipe.share_outputs()``: which of them is asked is not told apart."""
    m = call.m
    made = m.new_buffer("", Space.DEVICE, Origin.RESULT, flavors.FLAVORS[call.lib], None)
    m.lent.setdefault(symbol_of(call.value("self")), []).append(made)
    outputs = m.new_list(())
    m.heap[outputs.id].open, m.heap[outputs.id].sample = True, made
    return outputs


def draw(call: Call, effect: fx.Draws) -> None:
    """``fn.external_source(source=frames, cuda_stream=frames.stream)``: batch by batch is asked for."""
    m, source = call.m, call.value(effect.what)
    known = isinstance(source, FuncV) or (
        isinstance(source, HeapV) and classes.method(m, source, "__call__") is not None
    )
    if not known or call.value(effect.unless) not in (NONE, FALSE):
        return
    for _ in range(ASKED):
        call.bound["data"] = m.python.call(m, source, [], {}, call.span)
        memory.use(call, fx.Uses(reads=("data",), stream=effect.stream, host_waits=True))


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
            _SURE if known else _ASSUMED,
            stream=background.own_stream(call),
            accesses=tuple(Access(view.id, Mode.WRITE) for view in lent),
            name=call.name(),
            library=call.lib.product,
        )
    )
