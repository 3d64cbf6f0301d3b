"""Lists of unknown length that elements are taken out of: whether any is left is asked anew each time.

``while self.waiting: start(self.waiting.popleft())``: that something was there before the first pass says
nothing of the time when all of it has been taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import numbers, symbols

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def took(m: Machine, container: Symbol) -> None:
    """Something that nobody has told apart was taken out."""
    m.numbers.taken[container] = m.numbers.taken.get(container, 0) + 1


def is_taken_from(m: Machine, container: Symbol) -> bool:
    return bool(m.numbers.taken.get(container))


def filled(m: Machine, container: Symbol) -> None:
    """More was put there, nobody knows how much: ``self.waiting.extend(requests)``."""
    if m.numbers.taken.get(container):
        m.numbers.taken[container] = 0
        m.numbers.fillings[container] = m.numbers.fillings.get(container, 0) + 1


def length(m: Machine, container: Symbol) -> Symbol:
    """How many elements are left."""
    fillings = m.numbers.fillings.get(container)
    many = (container,) if fillings is None else (container, symbols.constant(fillings))
    return numbers.behind(symbols.call("len", *many), -m.numbers.taken.get(container, 0))


def is_any_left(m: Machine, container: Symbol) -> Symbol:
    """What its truth asks: the container itself, as long as nothing was taken out of it."""
    told_apart = container in m.numbers.taken or container in m.numbers.fillings
    return length(m, container) if told_apart else container


def ends(m: Machine, container: Symbol) -> None:
    """A loop that takes out of it has come to its end, since nothing is left."""
    m.oracle.answer(length(m, container), 1)
