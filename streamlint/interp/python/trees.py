"""Functions that are called for each tensor in lists and tables, however deep: ``tree_map(move, batch)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import names
from streamlint.interp.state.values import HeapV, Shape, TupleV, Value
from streamlint.models import host

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def of_function(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """The call of such a function; None for others."""
    if path not in host.MAPS_TREES:
        return None
    at, of = host.MAPS_TREES[path]
    function = args[at] if at < len(args) else _named(kwargs, host.MAPPED_BY)
    tree = args[of] if of < len(args) else _named(kwargs, host.MAPPED)
    if function is None or tree is None:
        return None
    # apply_to_collection(batch, torch.Tensor, move, device): what follows is passed on.
    more = args[at + 1 :] if at > of else []
    return _mapped(m, tree, lambda leaf: m.python.call(m, function, [leaf, *more], {}, span))


def _named(kwargs: dict[str, Value], accepted: tuple[str, ...]) -> Value | None:
    return next((kwargs[name] for name in accepted if name in kwargs), None)


def _mapped(m: Machine, tree: Value, call: Callable[[Value], Value]) -> Value:
    tree = names.settle(m, tree)
    match tree:
        case TupleV(items):
            return m.new_tuple([_mapped(m, item, call) for item in items])
        case HeapV() if m.heap[tree.id].shape in (Shape.LIST, Shape.DICT):
            return _container(m, tree, call)
        case _:
            return call(tree)


def _container(m: Machine, tree: HeapV, call: Callable[[Value], Value]) -> HeapV:
    held = m.heap[tree.id]
    made = m.new_object(held.shape)
    other = m.heap[made.id]
    other.items = [_mapped(m, item, call) for item in held.items]
    other.entries = {key: _mapped(m, value, call) for key, value in held.entries.items()}
    other.keys, other.open = dict(held.keys), held.open
    other.sample = _mapped(m, held.sample, call) if held.sample is not None else None
    return made
