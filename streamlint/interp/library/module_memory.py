"""What modules own: the parameters and buffers that a path has come by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import stored
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import BufferV, SymV
from streamlint.models import torch as model
from streamlint.models import torch_layers
from streamlint.trace import Evidence, Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol


def first(owner: Symbol, *, layer: bool = False) -> Symbol:
    """One tensor that a module has, which stands for all where nothing has listed them."""
    if layer:
        return symbols.Attr(owner, torch_layers.LAYER_PARTS[0])
    return nth(symbols.Attr(owner, model.PARAMETERS_OF_MODULE), 0)


def own(m: Machine, owner: Symbol, *, layer: bool) -> list[BufferV]:
    """The tensors of a module that the path has come by."""
    found = (
        names.settle(m, role)
        for key, role in m.roles.items()
        if isinstance(role, BufferV) and symbols.is_under(key, owner) and _is_owned(owner, key, layer=layer)
    )
    return list(dict.fromkeys(view for view in found if isinstance(view, BufferV)))


def is_on_device(m: Machine, symbol: Symbol) -> bool:
    """Whether a parameter that the path comes by is one of a module that was moved: ``net.cuda()``."""
    return any(
        _is_listed(owner, symbol) or (_is_part_of_layer(owner, symbol) and owner in m.makers)
        for owner in m.life.homes
        if symbols.is_under(symbol, owner)
    )


def is_owned(m: Machine, symbol: Symbol) -> bool:
    """Whether it is a parameter of a module that was moved, or its gradient."""
    match symbol:
        case symbols.Attr(of, "grad" | "data"):
            return is_on_device(m, of)
        case _:
            return is_on_device(m, symbol)


def has(m: Machine, symbol: Symbol) -> bool:
    """Whether a module has it, or a gradient of it: ``dist.all_reduce(p.grad, async_op=True)``."""
    if is_owned(m, symbol) or is_listed(symbol):
        return True
    match symbol:
        case symbols.Attr(of, "grad"):
            return is_listed(of)
        case _:
            return False


def at_home(m: Machine, symbol: Symbol, view: BufferV) -> BufferV:
    """The memory of a parameter of a module that was moved, or of its gradient: ``p.grad`` of such a one."""
    if is_owned(m, symbol):
        m.is_memory(view, Evidence.INFERRED)
        m.lives(view, Space.DEVICE, Evidence.INFERRED)
    return view


def _is_part_of_layer(owner: Symbol, symbol: Symbol) -> bool:
    match symbol:
        case symbols.Attr(of, name):
            return of is owner and name in torch_layers.LAYER_PARTS
        case _:
            return False


def of_whole(m: Machine, part: Symbol) -> list[BufferV]:
    """What stands for the parameters of a part that only its whole has listed, if any.

    ``Adam(net.parameters())``, and ``net.head(x)``. It is the first that was listed: which of them the part
    has is not known, and who changes one of them for its part waits for that one.
    """
    for place, role in m.roles.items():
        match place, role:
            case symbols.Item(symbols.Attr(whole, listing), symbols.Const(value=0)), BufferV():
                if listing == model.PARAMETERS_OF_MODULE and _is_part(m, part, whole):
                    view = names.settle(m, role)
                    return [view] if isinstance(view, BufferV) else []
            case _:
                pass
    return []


def _is_part(m: Machine, part: Symbol, whole: Symbol) -> bool:
    match whole:
        case symbols.Thing(number=int() as number) if number in m.heap:
            held = m.heap[number]
            parts = (value.symbol for value in held.attrs.values() if isinstance(value, SymV))
            return held.symbol is whole and part in parts
        case _:
            return symbols.is_under(part, whole)


def _is_owned(owner: Symbol, symbol: Symbol, *, layer: bool) -> bool:
    """Whether something is a parameter or a buffer.

    Of layers these are known. Of other modules it is what was listed, and what is written like a parameter:
    ``block.gate.data.copy_(page)``.
    """
    match symbol:
        case symbols.Attr(_, "grad"):
            # Computing reads no gradients.
            return False
        case symbols.Attr(symbols.Attr(of) as held, "data") if of is owner:
            return _is_owned(owner, held, layer=layer)
        case symbols.Attr(of, name) if of is owner:
            return name in torch_layers.LAYER_PARTS if layer else True
        case _:
            return _is_listed(owner, symbol) or _is_of_part(owner, symbol)


def _is_of_part(owner: Symbol, symbol: Symbol) -> bool:
    """Whether a module has something that is in another: ``for part in net.modules(): part.page = page``.

    What is reached by names alone may be no module, where nothing calls it like what layers have.
    """
    match symbol:
        case symbols.Attr(held, "data"):
            return _is_of_part(owner, held)
        case symbols.Attr(part, name):
            return stored.is_in(part, owner) and (name in torch_layers.LAYER_PARTS or _is_in_tree(part))
        case _:
            return False


def _is_in_tree(part: Symbol) -> bool:
    """Whether it is one of the modules that a module has listed."""
    while isinstance(part, symbols.Item):
        part = part.of
    return stored.listing_module(part) is not None


def _is_listed(owner: Symbol, symbol: Symbol) -> bool:
    """Not what code has put on a parameter: computing reads no ``p.main_grad``."""
    match symbol:
        case symbols.Item(of):
            return _lists(owner, of) or _is_listed(owner, of)
        case symbols.Attr(of, "data"):
            return _is_listed(owner, of)
        case _:
            return False


def is_listed(symbol: Symbol) -> bool:
    """Whether a tensor is one that a module has listed, the program's own too: ``Net().parameters()``."""
    match symbol:
        case symbols.Item(symbols.Attr(_, name)):
            return name in model.TENSORS_OF_MODULE
        case symbols.Attr(of, "data"):
            return is_listed(of)
        case _:
            return False


def _lists(owner: Symbol, symbol: Symbol) -> bool:
    match symbol:
        case symbols.Attr(of, name) if name in model.TENSORS_OF_MODULE:
            return of is owner or stored.is_in(of, owner)
        case _:
            return False


def nth(of: Symbol, number: int) -> Symbol:
    """One of what a module lists, by its place."""
    return symbols.Item(of, symbols.constant(number))
