"""Modules that are moved: ``block.to("cuda", non_blocking=True)`` gives each parameter other memory.

A tensor's ``to`` gives another tensor. A module's is ``p.data = p.data.to(...)`` for each parameter and buffer:
the new memory belongs to the stream that is current there, and what they had goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import copies, module_memory
from streamlint.interp.state import giving_up, naming, symbols
from streamlint.interp.state.values import BufferV, ConstV, Flavor, Value
from streamlint.models import torch as model
from streamlint.models.schema import Lib
from streamlint.trace import Evidence, Origin, Space, StreamKind

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def move(
    m: Machine,
    owner: Symbol,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    *,
    layer: bool = False,
) -> None:
    """``module.to(...)``, ``module.cuda()``, ``module.cpu()``"""
    to_host = copies.goes_to_host(m, name, args, kwargs) if name in model.MOVES_MODULE else None
    if to_host is None:
        return
    owned = module_memory.own(m, owner, layer=layer)
    if not owned and not _is_aside(m) and "non_blocking" not in kwargs:
        # net = Net().cuda() at the beginning: it is there when the call returns.
        if not to_host:
            m.life.homes[owner] = m.current_stream(Lib.TORCH).id
        return
    for view in owned or [_first(m, owner, on_host=not to_host, layer=layer)]:
        new = copies.method(m, view, name, args, kwargs, span)
        if isinstance(new, BufferV) and new.id != view.id:
            giving_up.assign_data(m, view, new)


def _is_aside(m: Machine) -> bool:
    return m.streams[m.current_stream(Lib.TORCH).id].kind not in (StreamKind.CURRENT, StreamKind.LEGACY)


def _first(m: Machine, owner: Symbol, *, on_host: bool, layer: bool) -> BufferV:
    """A parameter of which nothing is known but where the module was, and that nobody writes."""
    symbol = module_memory.first(owner, layer=layer)
    of = (home for module, home in m.life.homes.items() if owner is module or symbols.is_under(owner, module))
    space = Space.PINNED if on_host else Space.DEVICE
    stream = None if on_host else next(of, None)
    made = m.new_buffer(naming.called(m, symbol), space, Origin.RESULT, Flavor.TORCH, None, stream)
    m.buffers[made.id] = replace(m.buffers[made.id], kind=Evidence.INFERRED, residence=Evidence.INFERRED)
    m.roles[symbol] = made
    return made
