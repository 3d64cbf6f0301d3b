"""How often outside code calls the same thing: until the state that outlives a call repeats.

That state is the numbers and flags of the object, of variables of modules and classes that the code assigns
to, and the positions of iterators: whatever decides which slot the next call takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from streamlint.frozen import frozen
from streamlint.interp.python import iterators
from streamlint.interp.state import arrangement, lifetime, reach, rings
from streamlint.interp.state.symbols import text_of
from streamlint.interp.state.values import ConstV, HeapV, Shape, SymV, Value
from streamlint.trace import Copy, HostEffect, Launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.arrangement import Arrangement
    from streamlint.interp.state.machine import Machine

Numbers: TypeAlias = "tuple[tuple[str, object], ...]"


@frozen()
class State:
    """What decides which slot the next call takes."""

    numbers: Numbers
    stands: Arrangement
    born: int
    """How many buffers there were before the first call."""

    def since(self, before: State) -> tuple[Numbers, Arrangement]:
        """What a later state is compared by: what stands where counts where things were only moved."""
        return self.numbers, arrangement.moved(self.stands, before.stands)


CALLS = 6
"""Calls in a row of what never comes back to the state in which it was."""


def state(m: Machine, made: HeapV | None, born: int | None = None) -> State:
    """The numbers and flags that an object and what it holds carry: ring positions, phases.

    An attribute that is still ``None`` counts: ``self.last = x`` drops the last one from the second call on.
    So do variables of modules and classes that the path has changed, what dicts hold, iterators away from
    their start, and how full a ``deque(maxlen=2)`` is, or
    what code asks for its length.
    """
    found: list[tuple[str, object]] = []
    seen: set[int] = set()
    born = len(m.buffers) if born is None else born
    waiting: list[tuple[str, Value]] = [] if made is None else [("", made)]
    stands = arrangement.of(m, waiting, born)
    waiting += [
        (f"{owner}.{name}", value)
        for (owner, name), value in sorted(m.globals.items(), key=lambda item: item[0])
        if _counts(m, (owner, name), value)
    ]
    while waiting:
        prefix, value = waiting.pop()
        match value:
            case ConstV(bool() | int() | None as number):
                found.append((prefix, number))
            case SymV() if (slot := rings.place(m, value)) is not None:
                found.append((prefix, slot))
            case HeapV(number) if number not in seen:
                seen.add(number)
                held = m.heap[number]
                if held.most is not None or held.counted:
                    found.append((prefix, len(held.items) + len(held.entries)))
                if iterators.is_iterator(held):
                    found += [(prefix, at)] if (at := iterators.position(m, held)) else []
                elif held.shape is Shape.INSTANCE:
                    waiting += [(f"{prefix}.{name}", item) for name, item in sorted(held.attrs.items())]
                elif held.shape is Shape.DICT:
                    waiting += [(f"{prefix}[{text_of(at)}]", item) for at, item in held.entries.items()]
            case _:
                pass
    return State(tuple(sorted(found, key=lambda item: item[0])), stands, born)


def _counts(m: Machine, place: tuple[str, str], value: Value) -> bool:
    """Whether a variable of a module or a class is state: an iterator, or what the path has changed."""
    if isinstance(value, HeapV):
        return iterators.is_iterator(m.heap[value.id]) or m.heap[value.id].shape is Shape.DICT
    return isinstance(value, ConstV) and place in m.replaced and m.replaced[place] != value


def until_repeated(
    m: Machine, made: HeapV | None, call: Callable[[int], None], first: int, before: State
) -> int:
    """Calls after number ``first``: until the state is as it was ``before`` one of them, and one more.

    A ring of two slots collides on the third call. Gives the number of the next call.
    """
    seen = [before.since(before)]
    number = first + 1
    while (now := state(m, made, before.born).since(before)) not in seen and number < first + CALLS:
        seen.append(now)
        call(number)
        number += 1
    if now in seen:
        mark, lent = lifetime.mark(m), frozenset(m.life.handed_out)
        call(number)
        if lifetime.was_lent(m, lent) and not lifetime.came_back(m, mark):
            # The caller drops what it got in this one, first of all, when it has got the next.
            mark = lifetime.mark(m)
            number += 1
            call(number)
        if lifetime.came_back(m, mark):
            # Only what the next call allocates may get the memory that this one, or its caller, dropped.
            number += 1
            call(number)
        number += 1
    return number


def meets_itself(m: Machine) -> bool:
    """Whether a call left work on memory that modules and classes hold: the next call finds it there.

    ``PAGE = torch.empty(n, pin_memory=True)`` at the top, and ``def upload(a): PAGE.copy_(a); x.copy_(PAGE,
    non_blocking=True)``: the second upload writes what the first copy may still read.
    """
    if len({op.stream for op in m.ops if isinstance(op, (Launch, Copy))}) < 2 and not any(
        isinstance(op, Copy) and op.host is HostEffect.ASYNC for op in m.ops
    ):
        return False
    used = {access.buffer for op in m.ops if isinstance(op, (Launch, Copy)) for access in op.accesses}
    return bool(reach.reached(m, (*m.globals.values(), *m.remembered.values()), used))
