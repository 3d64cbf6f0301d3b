"""Keywords that a call passes on as it got them: ``self._prepare(**kwargs)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.python import containers
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import BufferV, ConstV, HeapV, Shape, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def spread(m: Machine, held: Value, span: Span) -> dict[str, Value]:
    """What is known of ``**held``; that there may be more, the call keeps (``Path.spread``)."""
    if not isinstance(held, HeapV):
        m.spread[span] = held
        return {}
    table = m.heap[held.id]
    if table.open:
        m.spread[span] = held
    return {str(key.value): table.entries[at] for at, key in table.keys.items() if isinstance(key, ConstV)}


def entry(m: Machine, rest: Value | None, name: str, span: Span) -> Value | None:
    """What a parameter gets that a call passes in no other way than by ``**rest``, of which not all is known.

    ``model(**{k: v.to(device) for k, v in batch.items()})`` of ``def forward(self, rows)``.
    """
    match names.settle(m, rest) if rest is not None else None:
        case (HeapV() | BufferV()) as table:
            return containers.index(m, table, ConstV(name), span)
        case _:
            return None


def is_in(m: Machine, rest: Value | None, name: str) -> bool:
    """Whether code has asked ``**rest`` for a key, which is there then: ``options["side"].wait_event(e)``."""
    table = names.settle(m, rest) if rest is not None else None
    return isinstance(table, HeapV) and symbols.constant(name) in m.heap[table.id].extra


def collected(m: Machine, rest: Value | None, named: Mapping[str, Value]) -> HeapV:
    """The ``**kwargs`` of a function that runs; ``rest`` is what may hold more than what is named.

    ``if "cache" in kwargs`` asks the same here as in the caller that passes its own ``**kwargs`` on.
    """
    made = m.new_object(Shape.DICT)
    table = m.heap[made.id]
    table.open = rest is not None
    match rest:
        case HeapV(number):
            table.symbol = m.symbol_of_object(rest)
            table.extra = dict(m.heap[number].extra)
        case _:
            pass
    for key, value in named.items():
        containers.put(m, table, ConstV(key), value)
    return made
