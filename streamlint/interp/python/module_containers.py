"""Modules of ``torch.nn`` that hold other modules: lists, dicts and sequences of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.python import builtin
from streamlint.interp.state.values import HeapV, Shape, SymV, TupleV, Value
from streamlint.models.torch import MODULE_CONTAINERS, SEQUENCE

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def made(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> HeapV | None:
    """``nn.ModuleList(layers)``, ``nn.Sequential(first, second)``; None where it is not known what it holds.

    Layers of ``torch.nn`` in a row are one layer: see ``library/layers.py``.
    """
    if path == SEQUENCE:
        if len(args) == 1 and isinstance(args[0], HeapV) and m.heap[args[0].id].shape is Shape.DICT:
            args = m.heap[args[0].id].named
        held = m.new_list(args) if any(isinstance(arg, HeapV) for arg in args) else None
    elif path in MODULE_CONTAINERS and (not args or isinstance(args[0], (HeapV, TupleV, SymV))):
        value = builtin.container(m, MODULE_CONTAINERS[path], args, kwargs, span)
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


def in_turn(m: Machine, sequence: HeapV, args: list[Value], span: Span) -> Value:
    """Calls what a sequence holds: each gets what the one before it gives."""
    first, *rest = m.heap[sequence.id].items
    value = m.python.call(m, first, args, {}, span)
    for module in rest:
        value = m.python.call(m, module, [value], {}, span)
    return value
