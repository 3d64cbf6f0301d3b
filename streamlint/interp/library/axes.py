"""How many axes arrays have: of one axis, indexing takes a number; of more, it gives a row and reads nothing.

``page = np.frombuffer(memory).reshape(4, -1)``, and then ``lanes = [page[i] for i in range(4)]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.state import elements, names, symbols
from streamlint.interp.state.values import (
    ApiV,
    BufferV,
    ConstV,
    SliceV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models import host, python
from streamlint.models import torch as torch_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def of_shape(m: Machine, shape: Value | None) -> int | None:
    """``np.empty(n)``, ``np.empty((rows, n))``: NumPy takes one argument, which is mostly a number."""
    shape = None if shape is None else names.settle(m, shape)
    items = None if shape is None else elements.listed(m, shape)
    match shape:
        case ConstV(int()):
            return 1
        case SymV(symbol) if not _is_of_another(symbol):
            return 1
        case _:
            return None if items is None else len(items)


def of_sizes(m: Machine, sizes: Sequence[Value]) -> int | None:
    """``torch.empty(4, n)``, ``x.reshape((4, n))``; of one unknown value (``torch.empty(shape)``) only a
    number that is shown to be one.
    """
    settled = [names.settle(m, size) for size in sizes]
    match settled:
        case [SymV(symbol)]:
            return 1 if _is_number(symbol) else None
        case [only]:
            return of_shape(m, only)
        case _:
            return len(settled) or None


def of_values(m: Machine, values: Value) -> int | None:
    """``np.array([1, 2, 3])``, ``np.array(page)``"""
    items = elements.listed(m, values)
    if isinstance(values, BufferV):
        return values.axes
    return 1 if items and all(isinstance(item, (ConstV, SymV)) for item in items) else None


def viewed(m: Machine, view: BufferV, name: str, sizes: Sequence[Value] = ()) -> BufferV:
    """Another view of the whole, by a method or an attribute: ``a.reshape(4, -1)``, ``x.t()``."""
    return replace(view, axes=_after(m, view.axes, name, sizes))


def _after(m: Machine, axes: int | None, name: str, sizes: Sequence[Value]) -> int | None:
    if name in host.GIVES_ONE_AXIS and not sizes:
        return 1
    if name in host.TAKES_SHAPE:
        # page.view(np.uint8): another type, and as many axes as before
        typed = len(sizes) == 1 and isinstance(sizes[0], ApiV)
        return axes if typed or not sizes else of_sizes(m, sizes)
    if name == "cast":
        # of a memoryview: ``cast("B")``
        return 1 if len(sizes) < 2 else of_shape(m, sizes[1])
    if name in torch_model.KEEPS_FORM | torch_model.TRANSPOSES | host.KEEPS_AXES:
        return axes
    return more(axes, 1) if name in host.ADDS_AXIS else None


def more(axes: int | None, many: int) -> int | None:
    return None if axes is None else max(axes + many, 0)


def left(view: BufferV, at: Value) -> int | None:
    """How many axes ``view[at]`` has: none where it is a number."""
    taken = 0
    for part in at.items if isinstance(at, TupleV) else (at,):
        match part:
            case SliceV():
                pass
            case ConstV(int()) | SymV():
                taken += 1
            case _:
                # ``a[None]``, ``a[..., 0]``, and gathers by other arrays
                return None
    return more(view.axes, -taken)


def row(view: BufferV) -> int | None:
    """How many axes each of those has that a walk over it comes by."""
    return more(view.axes, -1)


def has_rows(view: BufferV) -> bool:
    return view.axes is not None and view.axes > 1


def _is_of_another(symbol: Symbol) -> bool:
    """``np.empty(x.shape)``: as many axes as ``x`` has."""
    match symbol:
        case symbols.Attr(_, "shape") | symbols.Call(symbols.Attr(_, "size"), ()):
            return True
        case _:
            return False


def _is_number(symbol: Symbol) -> bool:
    """``torch.empty(rows * columns)``, ``torch.empty(len(ids))``"""
    match symbol:
        case symbols.Binary("*" | "//" | "-" | "%" | "<<" | ">>", _, _):
            return True
        case symbols.Call(symbols.Name(name), _):
            return name in python.GIVES_NUMBER
        case symbols.Call(symbols.Attr(_, name), _) | symbols.Attr(_, name):
            return name in host.COUNTS
        case symbols.Item(symbols.Attr(_, "shape"), _):
            return True
        case _:
            return False


def of_function(
    m: Machine, path: str, seen: BufferV, args: Sequence[Value], shape: Value | None
) -> int | None:
    """What a function has that gives another view: ``np.reshape(a, (4, -1))``, ``np.frombuffer(memory)``."""
    name = path.rpartition(".")[2]
    if name in host.SHAPES_VIEW:
        first = 0 if name in host.TAKES_SHAPE_FIRST else 1
        told = shape if shape is not None else args[first] if len(args) > first else None
        return 1 if told is None and name in host.VIEWS_IN_A_ROW else of_shape(m, told)
    if name in host.VIEWS_IN_A_ROW:
        return 1
    if name in host.CHANGES_AXES:
        return None
    if name in host.HAS_AXES:
        return seen.axes or 1
    return more(seen.axes, int(name in host.GIVES_MORE_AXES) - int(name in host.GIVES_FEWER_AXES))
