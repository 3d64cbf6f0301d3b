"""Results of graphs: memory that code takes for what one launch has written, and the next one overwrites.

``outs.append(static_out)`` behind ``graph.replay()`` means the values of this launch. A value that is put
aside in such a way says of which launch it is the result (``BufferV.result_of``), and so does each access to
it. What only names the memory, as ``out = runner.static_out`` does, may mean whatever is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen, replace
from streamlint.interp.state.values import BufferV, HeapObject, HeapV, Shape, TupleV, Value
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
    return _of_launch(m, value, _Since(0, len(m.heap))) if m.left_by else value


def stored(m: Machine, value: Value) -> Value:
    """``outs[name] = y``, if the same call of the function has launched it: else it names the memory."""
    return _of_launch(m, value, _Since(m.frame.begun, len(m.heap))) if m.left_by else value


def named(m: Machine, value: Value) -> Value:
    """``previous = runner.y``: the memory, or the result; in one operator with the memory itself a result."""
    if not isinstance(value, BufferV) or value.result_of is not None or value.id not in m.left_by:
        return value
    return replace(value, result_of=m.left_by[value.id], by_name=True)


def returned(m: Machine, value: Value, objects: int) -> Value:
    """What the running function gives: if it has launched the graph, the result of that.

    ``objects``: how many there were before. An older table is handed out again and again, and so are the
    tensors in it (``return self.static``): who gets it has a table of results.
    """
    return _of_launch(m, value, _Since(m.frame.begun, objects, tables=True)) if m.left_by else value


@frozen()
class _Since:
    """When a launch counts, which objects are new, and whether older tables are results as a whole."""

    op: int
    objects: int
    tables: bool = False


def _of_launch(m: Machine, value: Value, since: _Since, depth: int = _DEPTH) -> Value:
    match value:
        case BufferV(number, result_of=known):
            last = m.left_by.get(number, -1)
            is_new = last >= since.op and (known is None or value.by_name or known < since.op)
            return replace(value, result_of=last, by_name=False) if is_new else value
        case TupleV(items) if depth:
            return TupleV(tuple(_of_launch(m, item, since, depth - 1) for item in items))
        case HeapV(number) if depth:
            held = m.heap[number]
            if number >= since.objects:
                _mark(m, held, since, depth - 1)
            elif since.tables and held.shape is not Shape.INSTANCE and _is_written(m, held, since.op):
                made = m.new_object(held.shape, cls=held.cls)
                m.heap[made.id] = replace(
                    held, items=list(held.items), entries=dict(held.entries), extra=dict(held.extra)
                )
                _mark(m, m.heap[made.id], since, depth - 1)
                return made
            return value
        case _:
            return value


def _mark(m: Machine, held: HeapObject, since: _Since, depth: int) -> None:
    held.items = [_of_launch(m, item, since, depth) for item in held.items]
    for name, part in held.attrs.items():
        held.attrs[name] = _of_launch(m, part, since, depth)
    for table in (held.entries, held.extra):
        for key, item in table.items():
            table[key] = _of_launch(m, item, since, depth)
    if held.sample is not None:
        held.sample = _of_launch(m, held.sample, since, depth)


def _is_written(m: Machine, held: HeapObject, since: int) -> bool:
    """Whether all that a table holds was written by launches since an op."""
    inside = [*held.items, *held.entries.values(), *held.extra.values()]
    return bool(inside) and all(
        isinstance(item, BufferV) and m.left_by.get(item.id, -1) >= since for item in inside
    )
