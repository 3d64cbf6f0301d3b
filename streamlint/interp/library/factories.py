"""``torch.empty`` and its kin: tensors that are made of sizes and of plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streamlint.interp.facts import touching
from streamlint.interp.library import addresses, copies, devices, dtypes, forms, layout, storage, tensors
from streamlint.interp.state import lifetime, names
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    Flavor,
    Value,
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


def _takes_sizes(name: str) -> bool:
    return name.removeprefix("new_") in model.SIZED


def _has_other_defaults(m: Machine) -> bool:
    """Whether the module at work chooses a default device somewhere: it may have, before it came here."""
    module = m.project.module(m.frame.env.module)
    name = model.SET_DEFAULT_DEVICE.rpartition(".")[2]
    return module is not None and name in touching.all_names(module)


def make(
    m: Machine,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    like: BufferV | None = None,
) -> BufferV:
    """``torch.empty(...)`` and its kin: where the memory lives, and whether anything writes it."""
    space = m.space(like) if like is not None else Space.PAGEABLE
    device = m.buffers[like.id].device if like is not None else m.device
    by = m.buffers[like.id].residence if like is not None else Evidence.SHOWN
    by_default = False
    # torch.empty(n, device=None): where the default device is, which is the host if nothing else is said.
    asked = names.settle(m, kwargs.get("device", NONE))
    asked = m.default_device if asked == NONE and like is None else asked
    if asked != NONE:
        target = devices.as_device(m, asked)
        by = target.by
        if target.is_host:
            space = Space.PAGEABLE
        else:
            space = Space.DEVICE
            device = devices.place(m, target)
    elif like is None:
        by_default = True
        by = Evidence.ASSUMED if _has_other_defaults(m) else by
    if space is Space.PINNED:
        space = Space.PAGEABLE
    if "pin_memory" in kwargs and space is Space.PAGEABLE:
        pinned = copies.asks_for_pinned(m, kwargs["pin_memory"], span, "pin_memory")
        if pinned is not None:
            space, by = Space.PINNED, min(by, pinned)
    if space.on_host:
        made = m.no_surer_place(m.new_buffer("", space, Origin.ALLOCATED, Flavor.TORCH, span), by)
        # torch.empty(n, pin_memory=flag): who may ask for pinned memory has it on the host.
        if (
            by_default
            and space is Space.PAGEABLE
            and kwargs.get("pin_memory", ConstV(False)) == ConstV(False)
        ):
            m.by_default.add(made.id)
        if name in model.FROM_PYTHON:
            m.buffers[made.id] = replace(m.buffers[made.id], of_values=True)
        if name not in model.UNFILLED:
            tensors.write_on_host(m, made, span, name)
        return made
    sizes = [names.settle(m, size) for size in args] if _takes_sizes(name) else []
    count = storage.elements(sizes)
    stream = m.current_stream(Lib.TORCH, device)
    if count == 0:
        # torch.empty(rows, 0): no memory, which nobody can use or get.
        made = m.new_buffer("", space, Origin.ALLOCATED, Flavor.TORCH, None, None, device)
        m.life.elements[made.id] = count
        return replace(m.no_surer_place(made, by), region=NOTHING)
    if name in model.UNFILLED:
        lifetime.before_allocation(m, stream.id, span)
    made = m.new_buffer("", space, Origin.ALLOCATED, Flavor.TORCH, span, stream.id, device)
    dtypes.made(m, made, kwargs)
    made = layout.made(m, m.no_surer_place(made, by), name, kwargs)
    forms.made(m, made, name, [*args, *kwargs.values(), *([like] if like is not None else ())])
    if like is not None and "device" not in kwargs:
        m.made_of[made.id] = like.id
    forms.sized(m, made, sizes)
    if count is not None:
        m.life.elements[made.id] = count
    if name not in model.UNFILLED:
        filled = (Access(made.id, Mode.WRITE),)
        tensors.work(m, span, stream.id, filled, name, library=Lib.TORCH.product)
    if name in model.FROM_PYTHON:
        if args and (table := addresses.listed(m, args[0])):
            m.addresses[made.id] = table
        m.emit(SyncStream(m.site(span), m.lane, stream=stream.id, name=name, purpose=Purpose.ASIDE))
    return made
