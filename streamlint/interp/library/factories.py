"""``torch.empty`` and its kin: tensors that are made of sizes and of plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import frozen, replace
from streamlint.interp.facts import default_device, raised
from streamlint.interp.library import (
    addresses,
    axes,
    copies,
    devices,
    dtypes,
    forms,
    layout,
    storage,
    tensors,
)
from streamlint.interp.state import elements, lifetime, names
from streamlint.interp.state.values import (
    FALSE,
    NONE,
    BufferV,
    ConstV,
    DeviceV,
    Flavor,
    SymV,
    Value,
    symbol_of,
)
from streamlint.models import torch as model
from streamlint.models.schema import Lib
from streamlint.trace import (
    NOTHING,
    Access,
    Evidence,
    Mode,
    Origin,
    Purpose,
    Space,
    SyncStream,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span
    from streamlint.trace import DeviceId


def _takes_sizes(name: str) -> bool:
    return name.removeprefix("new_") in model.SIZED


def _read_values(m: Machine, values: list[Value], span: Span) -> None:
    """``torch.tensor(page)``, ``torch.tensor([host[0], host[1]])``: a copy of what is on the host."""
    for view in tensors.buffers_in(m, values[:1], unknown=False):
        if m.space(view).on_host:
            tensors.read_on_host(m, view, span, "tensor()")


def _axes(m: Machine, name: str, args: list[Value], like: BufferV | None) -> int | None:
    if name in model.LIKE_FACTORIES:
        return None if like is None else like.axes
    return axes.of_sizes(m, args) if _takes_sizes(name) else None


@frozen()
class _Where:
    """Where a tensor is made, and how that is known."""

    space: Space
    device: DeviceId
    by: Evidence
    by_default: bool = False
    """Nothing says so: where there is no default device, that is the host."""
    named: DeviceV | None = None
    """The device as code names it."""


def make(
    m: Machine,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    like: BufferV | None = None,
) -> BufferV:
    """``torch.empty(...)`` and its kin: where the memory lives, and whether anything writes it."""
    if name in model.FROM_PYTHON:
        _read_values(m, args, span)
    where = _where(m, kwargs, like, span)
    made = _made(m, name, where, args, kwargs, span, like)
    if name in model.DRAWS_INDICES:
        _draws(m, made, args)
    return made


def _draws(m: Machine, made: BufferV, args: list[Value]) -> None:
    """``torch.randint(n, (k,))``, ``torch.randint(0, n, (k,))``, ``torch.randperm(n)``: below which one."""
    match [names.settle(m, one) for one in args]:
        case [ConstV(0), end, _] | [end] | [end, _] if isinstance(end, (ConstV, SymV)) and end != ConstV(0):
            m.forms.drawn[made.id] = elements.selector_of(symbol_of(end))
        case _:
            pass


def _made(
    m: Machine,
    name: str,
    where: _Where,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    like: BufferV | None,
) -> BufferV:
    sizes = [names.settle(m, size) for size in args] if _takes_sizes(name) else []
    if where.space.on_host:
        made = replace(_on_host(m, name, where, kwargs, span), axes=_axes(m, name, args, like))
        forms.sized(m, made, sizes)
        return made
    count = storage.elements(sizes)
    if count == 0 and _is_raised_elsewhere(m):
        count = None
    if count == 0:
        # torch.empty(rows, 0): no memory, which nobody can use or get.
        made = m.new_buffer("", where.space, Origin.ALLOCATED, Flavor.TORCH, None, None, where.device)
        m.life.elements[made.id] = count
        return replace(m.no_surer_place(made, where.by), region=NOTHING)
    made = _on_device(m, name, where, args, kwargs, span)
    forms.made(m, made, name, [*args, *kwargs.values(), *([like] if like is not None else ())])
    devices.is_on(m, made, names.settle(m, kwargs.get("device", NONE)))
    if like is not None and "device" not in kwargs:
        m.made_of[made.id] = like.id
        devices.is_beside(m, made, like)
    forms.sized(m, made, sizes)
    if count is not None:
        m.life.elements[made.id] = count
    return made


def _is_raised_elsewhere(m: Machine) -> bool:
    """Whether a size is zero only as the path came by nothing that raises it.

    ``most = 0``, ``most = max(most, page.numel())`` for pages that do not fit, then ``torch.empty(most)``:
    who uses that has such pages.
    """
    call, code = m.frame.calling, m.frame.code
    if call is None or code is None:
        return False
    names = {node.id for arg in call.args for node in ir.walk(arg.value) if isinstance(node, ir.Name)}
    return not names.isdisjoint(raised.variables(m.project, code))


def _where(m: Machine, kwargs: dict[str, Value], like: BufferV | None, span: Span) -> _Where:
    # torch.empty(n, device=None): where the default device is, which is the host if nothing else is said.
    asked = names.settle(m, kwargs.get("device", NONE))
    asked = m.default_device if asked == NONE and like is None else asked
    if asked != NONE:
        target = devices.as_device(m, asked)
        if not target.is_host:
            return _Where(Space.DEVICE, devices.place(m, target), target.by, named=target)
        # The constructor has set the host again, and the next call may come from where another is chosen.
        holds = asked is not m.default_device or m.default_since == m.call
        found = _Where(Space.PAGEABLE, m.device, target.by if holds else Evidence.ASSUMED)
    elif like is not None:
        known = m.buffers[like.id]
        found = _Where(m.space(like), known.device, known.residence)
    else:
        by = Evidence.ASSUMED if default_device.may_be_chosen(m) else Evidence.SHOWN
        found = _Where(Space.PAGEABLE, m.device, by, by_default=True)
    if found.space not in (Space.PAGEABLE, Space.PINNED):
        return found
    # What is like pinned memory is not pinned itself.
    asks = "pin_memory" in kwargs
    pinned = copies.asks_for_pinned(m, kwargs["pin_memory"], span, "pin_memory") if asks else None
    if pinned is None:
        return replace(found, space=Space.PAGEABLE)
    return replace(found, space=Space.PINNED, by=min(found.by, pinned))


def _on_host(m: Machine, name: str, where: _Where, kwargs: dict[str, Value], span: Span) -> BufferV:
    made = m.no_surer_place(m.new_buffer("", where.space, Origin.ALLOCATED, Flavor.TORCH, span), where.by)
    dtypes.made(m, made, kwargs)
    if _takes_sizes(name):
        m.forms.dtypes.setdefault(made.id, dtypes.DEFAULT)
    # torch.empty(n, pin_memory=flag): who may ask for pinned memory has it on the host.
    asks_for_pinned = kwargs.get("pin_memory", FALSE) != FALSE
    if where.by_default and where.space is Space.PAGEABLE and not asks_for_pinned:
        m.by_default.add(made.id)
    if name in model.FROM_PYTHON:
        m.buffers[made.id] = replace(m.buffers[made.id], of_values=True)
    if name not in model.UNFILLED:
        tensors.write_on_host(m, made, span, name)
    return made


def _on_device(
    m: Machine, name: str, where: _Where, args: list[Value], kwargs: dict[str, Value], span: Span
) -> BufferV:
    stream = m.current_stream(Lib.TORCH, where.device)
    if name in model.UNFILLED:
        lifetime.before_allocation(m, stream.id, span)
    made = m.new_buffer("", where.space, Origin.ALLOCATED, Flavor.TORCH, span, stream.id, where.device)
    if where.named is not None:
        devices.is_named(m, made, where.named)
    dtypes.made(m, made, kwargs)
    made = layout.made(m, m.no_surer_place(made, where.by), name, kwargs)
    if name not in model.UNFILLED:
        filled = (Access(made.id, Mode.WRITE),)
        tensors.work(m, span, stream.id, filled, name, library=Lib.TORCH.product)
    if name in model.FROM_PYTHON:
        if args and (table := addresses.listed(m, args[0])):
            m.addresses[made.id] = table
        m.emit(SyncStream(m.site(span), m.lane, stream=stream.id, name=name, purpose=Purpose.ASIDE))
    return made
