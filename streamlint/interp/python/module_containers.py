"""Modules of ``torch.nn`` that hold other modules: lists, dicts and sequences of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.python import built, containers
from streamlint.interp.state import symbols
from streamlint.interp.state.loop_steps import UNKNOWN_LENGTH_TURNS
from streamlint.interp.state.values import HeapV, Shape, SymV, TupleV, Value
from streamlint.models.torch import MODULE_CONTAINERS, SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def made(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> HeapV | None:
    """``nn.ModuleList(layers)``, ``nn.Sequential(first, second)``; None where it is not known what it holds.

    Layers of ``torch.nn`` in a row are one layer: see ``library/layers.py``.
    """
    if path == SEQUENCE:
        if len(args) == 1 and isinstance(args[0], HeapV) and m.heap[args[0].id].shape is Shape.DICT:
            args = m.heap[args[0].id].named
        held = m.new_list(args) if any(isinstance(arg, HeapV) or _rest(arg) for arg in args) else None
    elif path in MODULE_CONTAINERS and (not args or isinstance(args[0], (HeapV, TupleV, SymV))):
        value = built.container(m, MODULE_CONTAINERS[path], args, kwargs, span)
        held = value if isinstance(value, HeapV) else None
        if args and isinstance(args[0], SymV):
            # What of the list nothing is known of, that its elements are modules.
            m.makers[args[0].symbol] = path
    else:
        held = None
    if held is not None:
        m.heap[held.id].kind = path
    return held


def is_sequence(m: Machine, value: HeapV) -> bool:
    return m.heap[value.id].kind == SEQUENCE


def in_turn(m: Machine, sequence: HeapV | SymV, args: list[Value], span: Span) -> Value:
    """Calls what a sequence holds: each gets what the one before it gives."""
    first, *rest = parts(m, sequence, span) if isinstance(sequence, HeapV) else sequence.holds
    value = m.python.call(m, first, args, {}, span)
    for module in rest:
        value = m.python.call(m, module, [value], {}, span)
    return value


def parts(m: Machine, sequence: HeapV, span: Span) -> Iterator[Value]:
    """Of ``nn.Sequential(*(Block() for _ in range(depth)))`` as many as a loop of unknown length calls."""
    for held in m.heap[sequence.id].items:
        rest = _rest(held)
        if rest is None:
            yield held
        else:
            yield from (containers.nth(m, rest, turn, span) for turn in range(UNKNOWN_LENGTH_TURNS))


def _rest(arg: Value) -> HeapV | None:
    """The list of unknown length of which a call got all elements: ``nn.Sequential(*blocks)``."""
    match arg:
        case SymV(symbols.Spread(), (HeapV() as rest, *_)):
            return rest
        case _:
            return None
