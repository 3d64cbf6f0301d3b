"""Modules that are moved: ``block.to("cuda", non_blocking=True)`` gives each parameter other memory.

A tensor's ``to`` gives another tensor. A module's is ``p.data = p.data.to(...)`` for each parameter and
buffer: the new memory belongs to the stream that is current there, and what they had goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import copies, module_memory
from streamlint.interp.state import giving_up, outside, symbols
from streamlint.interp.state.values import BufferV, Value
from streamlint.models import torch as model
from streamlint.models.schema import Lib
from streamlint.trace import Copy, Evidence, Launch, Origin, Space

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
    if not owned and not m.is_aside(Lib.TORCH) and "non_blocking" not in kwargs:
        # net = Net().cuda() at the beginning: it is there when the call returns.
        if to_host:
            m.life.homes.pop(owner, None)
        else:
            m.life.homes[owner] = m.current_stream(Lib.TORCH).id
        return
    owned = owned or [_unlisted(m, module_memory.first(owner, layer=layer))]
    for view in owned:
        if _is_as_the_caller_left_it(m, view):
            _nobody_writes(m, owner, view, on_host=not to_host)
        new = copies.method(m, view, name, args, kwargs, span)
        if isinstance(new, BufferV) and new.id != view.id:
            giving_up.move(m, view, new)


def as_it_is(m: Machine, owner: Symbol, *, layer: bool = False) -> BufferV:
    """A parameter of a module that computes aside before anything has listed it.

    A thread runs ``net(rays)`` on its own stream; behind that it is ``for p in net.parameters(): ...``.
    """
    view = _unlisted(m, module_memory.first(owner, layer=layer))
    _nobody_writes(m, owner, view, on_host=False)
    m.unlisted.add(view.id)
    return view


def _unlisted(m: Machine, symbol: Symbol) -> BufferV:
    view = outside.memory(m, symbol)
    m.roles[symbol] = view
    return view


def _is_as_the_caller_left_it(m: Machine, view: BufferV) -> bool:
    """Whether a parameter was listed at most: ``next(layer.parameters()).is_cuda``."""
    if m.buffers[view.id].origin is not Origin.ARGUMENT:
        return False
    accesses = (access for op in m.ops if isinstance(op, (Launch, Copy)) for access in op.accesses)
    return not any(access.buffer == view.id and access.mode.writes for access in accesses)


def _nobody_writes(m: Machine, owner: Symbol, view: BufferV, *, on_host: bool) -> None:
    """Who moves a module has nothing under way in it; it was where its move says that it is not."""
    homes = m.life.homes.items()
    of = (home for module, home in homes if owner is module or symbols.is_under(owner, module))
    m.buffers[view.id] = replace(
        m.buffers[view.id],
        space=Space.PINNED if on_host else Space.DEVICE,
        kind=Evidence.INFERRED,
        residence=Evidence.INFERRED,
        alloc_stream=None if on_host else next(of, None),
    )
    m.is_not_pending(view)
