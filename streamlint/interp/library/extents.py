"""How much of an allocation is meant from where an address points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import BufferV, ConstV, Flavor, SymV, Value, symbol_of
from streamlint.models import host
from streamlint.trace import UNBOUNDED, Interval, Rows, Shifted

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine


def sized(m: Machine, view: BufferV, size: Value) -> BufferV:
    """``size`` bytes from where a pointer points; all of the allocation stays the whole of it.

    Of how many is not known: ``copy(base, n)`` and ``copy(base + 4096, n)`` may share none.
    How many bytes a row has is not known: what starts at ``x[1].data_ptr()`` is taken to be that row.
    """
    first = _first(m, view, symbol_of(size))
    match size:
        case _ if first is None:
            return view
        case ConstV(int() as known):
            return BufferV(view.id, (Interval(first, first + known),), view.flavor)
        case SymV():
            return BufferV(view.id, (Shifted(str(first)),), view.flavor)
        case _:
            return view


def as_large_as(m: Machine, view: BufferV, other: BufferV) -> BufferV:
    """As many bytes from where a pointer points as the other end has: ``memcpy_htod(base + at, rows[i])``."""
    if view.flavor is not Flavor.POINTER or other.flavor is Flavor.POINTER:
        return view
    return sized(m, view, SymV(symbols.Attr(symbol_of(other), "nbytes")))


def rows(m: Machine, view: BufferV, pitch: Value, width: Value, height: Value) -> BufferV:
    """As many bytes of each row from where a pointer points; rows without a gap are bytes in a piece.

    ``base + column * width`` on another stream fills what lies between the rows.
    """
    match pitch, width, height:
        case ConstV(int() as apart), ConstV(int() as wide), ConstV(int() as count) if apart == wide:
            return sized(m, view, ConstV(wide * count))
        case ConstV(int() as apart), ConstV(int() as wide), ConstV(int() as count) if (
            0 < wide < apart and (first := _first(m, view, None)) is not None
        ):
            return BufferV(view.id, (Rows(first, wide, apart, count),), view.flavor)
        case _:
            return sized(m, view, SymV(symbols.Binary("*", symbol_of(pitch), symbol_of(height))))


def _first(m: Machine, view: BufferV, size: symbols.Symbol | None) -> int | None:
    """The byte at which a pointer points, where ``size`` bytes from there are a part of the allocation."""
    if view.flavor is not Flavor.POINTER:
        return None
    match view.region:
        case () if m.sizes.get(view.id) not in (None, size):
            return 0
        case (Interval(lo, hi),) if hi == UNBOUNDED:
            return lo
        case _:
            return None


def from_there(view: BufferV) -> BufferV:
    """What a kernel gets that is given an address behind the beginning: how far it goes is not known.

    ``launch(lane, config, kernel, base + 4 * i * chunk)``: each works on its part, or on all that follows.
    """
    match view.region:
        case (*front, Interval(lo, hi)) if view.flavor is Flavor.POINTER and hi == UNBOUNDED:
            return BufferV(view.id, (*front, Shifted(str(lo))), view.flavor)
        case _:
            return view


def at_address(m: Machine, address: Value, of: symbols.Symbol) -> Value:
    """What ``(ctypes.c_ubyte * n).from_address(address)`` lies over; ``of`` is what stands before the dot."""
    view = names.settle(m, address)
    match view, of:
        case BufferV(), symbols.Binary("*", symbols.Name(element), symbols.Const(value=int() as count)):
            known = ConstV(count) if element in host.BYTES else SymV(of)
            return sized(m, view, known)
        case BufferV(), symbols.Binary("*", symbols.Name(element), count) if element in host.BYTES:
            return sized(m, view, SymV(count))
        case BufferV(), symbols.Binary("*"):
            return sized(m, view, SymV(of))
        case _:
            return address
