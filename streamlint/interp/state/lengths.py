"""How long what a loop walks is, by what its passes ask: ``if i + 1 < n: prefetch(i + 1)``.

A loop over ``range(n)`` of an unknown ``n`` makes a few passes, which then are all that there are. So the
question whether there is one more has an answer in each of them: yes as long as passes are planned, then once
no, and where a path answers yes, another pass is made. A path on which the last pass has prefetched for the
next one is none that can happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import frozen
from streamlint.interp.state import elements, symbols
from streamlint.interp.state.numbers import linear
from streamlint.interp.state.values import ConstV, HeapObject, HeapV, SymV, Value, symbol_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Comparison

FAR = 2
"""How many passes ahead a loop may ask: ``i + 2 < n``. What is compared with a larger number, is a size."""


def of(m: Machine, source: Value) -> tuple[int, Symbol] | None:
    """What a loop over ``source`` counts from, and up to: ``range(n)``, ``enumerate(xs)``.

    ``for i in range(n + 1): if i < n: ...`` counts up to ``n`` as well, from one before its beginning.
    """
    known = _counted(m, source)
    if known is None:
        return None
    length, far = linear(known[1])
    return known[0] - far, same(m, length)


def same(m: Machine, length: Symbol) -> Symbol:
    """A length as the number that it is known to be."""
    return m.numbers.alike.get(length, length)


def one_for_each(m: Machine, made: Value, source: Value) -> None:
    """A comprehension has made a list of one element for each of ``source``."""
    start, length = _counted(m, source) or (0, symbols.call("len", symbol_of(source)))
    if not start:
        m.numbers.alike[symbols.call("len", symbol_of(made))] = same(m, length)


def _counted(m: Machine, source: Value) -> tuple[int, Symbol] | None:
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    match held.items if held is not None and held.role in ("range", "enumerate") else ():
        case [ConstV(int() as start), ConstV(1), SymV(end)]:
            return start, end
        case [ConstV(int() as start), inner]:
            return start, symbols.call("len", symbol_of(inner))
        case _:
            return None


def begins(m: Machine, source: Value, turn: int, planned: int) -> None:
    """A pass begins: there is an element for it, and one for the next if ``planned`` are more."""
    if (known := of(m, source)) is not None:
        start, length = known
        m.numbers.least[length] = max(m.numbers.least.get(length, 0), start + turn + 1)
        m.numbers.walked[length] = turn < planned
        m.numbers.passes[length] = start + planned


def ends(m: Machine, source: Value) -> None:
    """The loop is left."""
    if (known := of(m, source)) is not None:
        m.numbers.walked.pop(known[1], None)
        m.numbers.passes.pop(known[1], None)


def is_promised(m: Machine, source: Value, turn: int) -> bool:
    """Whether the path has answered that there is an element for this pass."""
    known = of(m, source)
    return known is not None and m.numbers.least.get(known[1], 0) > known[0] + turn


def has_ended(m: Machine, source: Value, turn: int) -> bool:
    """Whether there is no element for this pass: by what the path has asked, or ``if i == len(xs) - 1``."""
    most = _elements(m, source)
    if most is None and (known := of(m, source)) is not None:
        start, length = known
        most = m.numbers.most.get(length)
        most = None if most is None else most - start
    return most is not None and most <= turn


def _elements(m: Machine, source: Value) -> int | None:
    """No more elements are there: two of ``zip(range(2), batches)``, and of ``batches[:2]``."""
    listed = elements.listed(m, source)
    if listed is not None:
        return len(listed)
    held = m.heap[source.id] if isinstance(source, HeapV) else None
    match held:
        case HeapObject(role="range", items=[ConstV(int() as start), ConstV(1), SymV(end)]):
            length, far = linear(end)
            most = _most(m, length)
            most = _least_of((_most(m, end), None if most is None else most + far))
            return None if most is None else most - start
        case HeapObject(role="zip", items=parts):
            return _least_of(_elements(m, part) for part in parts)
        case HeapObject(role="enumerate", items=[_, inner]):
            return _elements(m, inner)
        case _:
            return _most(m, symbols.call("len", symbol_of(source)))


def _most(m: Machine, length: Symbol) -> int | None:
    """No number is larger: two, of ``min(2, len(batches))``, and as many as the slots of a ring."""
    if (known := symbols.number(length)) is not None:
        return known
    length = same(m, length)
    told = [m.numbers.most.get(length), m.numbers.slots.get(length)]
    if length in m.numbers.limits:
        told.append(_most(m, m.numbers.limits[length]))
    match length:
        case symbols.Call(symbols.Name("min"), [_, _, *_] as numbers):
            told += [_most(m, one) for one in numbers]
        case symbols.Call(symbols.Name("len"), [symbols.Item(_, symbols.Slice(_, end, _))]) if end:
            told.append(_most(m, end))
    return _least_of(told)


def _least_of(numbers: Iterable[int | None]) -> int | None:
    return min((one for one in numbers if one is not None), default=None)


def limit(m: Machine, made: Value, number: Value) -> None:
    """There are no more than so many elements of it."""
    m.numbers.limits[symbols.call("len", symbol_of(made))] = symbol_of(number)


def settle(m: Machine, length: Symbol) -> None:
    """How many elements there are of what a loop walks just now, once something depends on it.

    ``for i in range(n): nodes[i].send(nodes[(i + 1) % n])``: the last node sends to the first one.
    """
    length = same(m, length)
    if length in m.numbers.settled or length not in m.numbers.walked:
        return
    least, most = m.numbers.least.get(length, 0), _most(m, length)
    many = max(least, m.numbers.passes[length])
    many = many if most is None else min(most, many)
    m.numbers.least[length] = m.numbers.most[length] = m.numbers.settled[length] = many


def reach(m: Machine, many: int) -> None:
    """The innermost loop makes so many passes: ``jobs[k % lanes]`` is back at its first slot in the last."""
    length = next(reversed(m.numbers.walked), None)
    if length is not None and _most(m, length) is None:
        m.numbers.least[length] = max(m.numbers.least.get(length, 0), many)


_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "=="}


@frozen()
class _Question:
    """``k < n``, or with ``equal`` ``k == n``, of a number ``k``; ``wanted``: or the opposite."""

    number: int
    length: Symbol
    equal: bool = False
    wanted: bool = True


def _question(m: Machine, op: str, left: Value, right: Value) -> _Question | None:
    match left, right:
        case (ConstV(int() as number), SymV(symbol)) if op in _TURNED:
            pass
        case (SymV(symbol), ConstV(int() as number)) if op in _TURNED:
            op = _TURNED[op]
        case _:
            return None
    length, far = linear(symbol)
    length = same(m, length)
    if op == "==":
        return _Question(number - far, length, equal=True)
    # As k < n, k <= n, k > n or k >= n
    return _Question(number - far - (op in ("<=", ">")), length, wanted=op in ("<", "<="))


def answer(m: Machine, op: str, left: Value, right: Value) -> bool | None:
    """What the passes tell of such a question, and which are still to come after the answer."""
    asked = _question(m, op, left, right)
    if asked is None:
        return None
    more = _is_more(m, asked.length, asked.number)
    if more is None:
        return None
    if not asked.equal:
        return more == asked.wanted
    most = _most(m, asked.length)
    if more or most is None or most < asked.number:
        return False
    return True if m.numbers.least.get(asked.length) == asked.number else None


def _is_more(m: Machine, length: Symbol, number: int) -> bool | None:
    """Whether there are more elements than that. None: not known, and not for the next passes to say."""
    least, most = m.numbers.least.get(length, 0), _most(m, length)
    # if i >= depth: done[i - depth].synchronize(): beside slots[i % depth] that is known, too.
    if number < m.numbers.slots.get(length, least):
        return True
    if most is not None and number >= most:
        return False
    if length not in m.numbers.walked or number - least >= FAR:
        return None
    if m.numbers.walked[length]:
        m.numbers.least[length] = number + 1
        return True
    m.numbers.most[length] = number
    return False


def told(m: Machine, asked: Comparison, *, holds: bool) -> None:
    """An answer says how many elements there are at most: ``if self.sent < n: self.send()`` is left out."""
    found = _question(m, asked.op, asked.left, asked.right)
    if found is not None and holds != (found.wanted and not found.equal):
        m.numbers.most[found.length] = min(m.numbers.most.get(found.length, found.number), found.number)
