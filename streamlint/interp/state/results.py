"""Results of graphs: memory that code takes for what one launch has written, and the next one overwrites.

``outs.append(static_out)`` behind ``graph.replay()`` means the values of this launch. A value that is put
aside in such a way says of which launch it is the result (``BufferV.result_of``), and so does each access to
it. What only names the memory, as ``out = runner.static_out`` does, says nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.interp.state.values import BufferV, HeapV, Shape, TupleV, Value
from streamlint.trace import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.interp.state.machine import Machine
    from streamlint.trace import Access

_DEPTH = 3
"""Of tables in lists of tuples."""


def launched(m: Machine, number: int, accesses: Iterable[Access]) -> None:
    """The op ``number`` launches a graph. What it only updates may keep what was there: rows of a history."""
    m.left_by |= {access.buffer: number for access in accesses if access.mode is Mode.WRITE}


def put_aside(m: Machine, value: Value) -> Value:
    """A value as the code keeps it beside others: ``outs.append(y)``, ``yield y``, ``[y for _ in xs]``."""
    return _of_launch(m, value, 0, len(m.heap), _DEPTH) if m.left_by else value


def returned(m: Machine, value: Value, first: int, objects: int) -> Value:
    """What a function gives that began before op ``first``: if it has launched the graph, the result of that.

    ``objects``: how many there were before. What is older is not the result alone: ``return self.static``.
    """
    return _of_launch(m, value, first, objects, _DEPTH) if m.left_by else value


def _of_launch(m: Machine, value: Value, first: int, objects: int, depth: int) -> Value:
    match value:
        case BufferV(number, result_of=known):
            last = m.left_by.get(number, -1)
            is_new = last >= first and (known is None or known < first)
            return replace(value, result_of=last) if is_new else value
        case TupleV(items) if depth:
            return TupleV(tuple(_of_launch(m, item, first, objects, depth - 1) for item in items))
        case HeapV(number) if depth and number >= objects and m.heap[number].shape is not Shape.INSTANCE:
            held = m.heap[number]
            held.items = [_of_launch(m, item, first, objects, depth - 1) for item in held.items]
            for table in (held.entries, held.extra):
                for key, item in table.items():
                    table[key] = _of_launch(m, item, first, objects, depth - 1)
            if held.sample is not None:
                held.sample = _of_launch(m, held.sample, first, objects, depth - 1)
            return value
        case _:
            return value
