"""``torch.name(...)``: factories, operators, in-place functions and collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import known_values
from streamlint.interp.facts.kinds import Kind
from streamlint.interp.library import (
    copies,
    devices,
    factories,
    forms,
    hooks,
    in_place,
    layers,
    optimizers,
    saved_hooks,
    sizes,
    storage,
    tensor_methods,
    tensors,
    unresolved,
)
from streamlint.interp.state import elements, names
from streamlint.interp.state.values import (
    FALSE,
    NONE,
    BufferV,
    ConstV,
    DeviceV,
    HeapV,
    MethodV,
    Shape,
    SymV,
    TupleV,
    Value,
    given_by,
    reading,
    symbol_of,
)
from streamlint.models import operands
from streamlint.models import torch as model
from streamlint.models.autograd import BACKWARD, SAVED_TENSORS_HOOKS
from streamlint.models.schema import Lib
from streamlint.models.torch_layers import IN_PLACE_IF_ASKED
from streamlint.trace import (
    Access,
    Evidence,
    HostAccess,
    Mode,
    Space,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


_CUDA = ConstV("cuda")
_BY_DEFAULT = DeviceV("cpu", by=Evidence.ASSUMED, places=True)
"""Where tensors are made of which the code has said nothing: its caller may have."""


def _as_tensor(m: Machine, value: Value) -> Value:
    """The first argument of an operator, or the elements of a list of them, are tensors."""
    match names.settle(m, value):
        case SymV() as unknown if known_values.of_value(m, unknown.symbol).kind is Kind.PLAIN:
            return unknown
        case SymV() as unknown:
            return tensors.as_buffer(m, unknown, kind=Evidence.INFERRED)
        case HeapV(number) if m.heap[number].shape is Shape.LIST:
            held = m.heap[number]
            inside = [*held.items, held.sample] if held.sample is not None else held.items
            for item in inside:
                _as_tensor(m, item)
            return value
        case _:
            return value


def torch_function(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """``torch.name(...)``: what is known of it by its path; anything else is an operator."""
    owner, _, last = path.rpartition(".")
    made = (
        _of_aten(m, path, args, kwargs, span)
        or _made(m, path, args, kwargs, span)
        or _placed(m, path, args, kwargs, span)
        or _without_work(m, path, args, kwargs, span)
        or _of_gradients(m, path, args, kwargs, span)
    )
    if made is not None:
        return made
    if owner == model.INITIALIZERS and args and isinstance(first := names.settle(m, args[0]), BufferV):
        return in_place.method(m, first, last, args[1:], kwargs, span)
    if path in model.CALLS_WITH_STATE and args and not isinstance(names.settle(m, args[0]), HeapV):
        # functional_call(layer, weights, (x,)): a layer that is in sight may do anything with them.
        return _operator(m, path, args[1:], kwargs, span)
    if path.startswith(model.OTHER_MODULES) and owner not in model.OPERATOR_MODULES:
        if last[:1].isupper() or not tensors.buffers_in(m, args, unknown=False):
            return layers.made(m, path, args, kwargs, span)
        return unresolved.opaque(m, path, args, kwargs, span)
    if path == model.PARTS_TENSORS and (flat := tensors.buffers_in(m, args[:1])):
        return tensor_methods.method(m, flat[0], "split", [m.fresh(last, span)], {}, span)
    if owner not in model.OPERATOR_MODULES and path != model.JOINS_TENSORS:
        made = unresolved.opaque(m, path, args, kwargs, span)
        m.makers[symbol_of(made)] = path
        return made
    return _operator(m, path, args, kwargs, span)


def _of_aten(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    """``torch.ops.aten.copy_.default(page, x, True)`` is ``page.copy_(x, True)``."""
    if not path.startswith(model.ATEN) or not args:
        return None
    name = path.removeprefix(model.ATEN).partition(".")[0]
    if name.endswith("_") and not name.startswith("_"):
        return m.python.call(m, MethodV(_as_tensor(m, args[0]), name), args[1:], kwargs, span)
    return _operator(m, f"torch.{name}", args, kwargs, span) if "out" in kwargs else None


def _made(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    """Factories, and views by a function: ``torch.empty(n)``, ``torch.split(x, 4)``."""
    owner, _, last = path.rpartition(".")
    if last in model.TYPED and owner in ("torch", "torch.cuda"):
        placed: dict[str, Value] = {"device": _CUDA} if owner == "torch.cuda" else {}
        return factories.make(m, "tensor", args, placed, span)
    if path == model.COMPILED_FACTORY:
        return factories.make(m, "empty_strided", args, {"device": _CUDA}, span)
    first = args[:1]
    if path == model.COMPILED_VIEW and (whole := tensors.buffers_in(m, first)):
        return whole[0]
    if "." in owner and owner != "torch.Tensor":
        return None
    if last in model.FACTORIES and ("out" not in kwargs or last in model.UNFILLED):
        return factories.make(m, last, args, kwargs, span)
    if last in model.LIKE_FACTORIES and args:
        like = next(iter(tensors.buffers_in(m, [_as_tensor(m, args[0])])), None)
        return factories.make(m, last, args[1:], kwargs, span, like=like)
    if last in model.VIEW_METHODS | model.SPLIT_METHODS and args:
        args[0] = _as_tensor(m, args[0])
        if viewed := tensors.buffers_in(m, args[:1]):
            return tensor_methods.method(m, viewed[0], last, args[1:], kwargs, span)
    return None


def _placed(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    """What is loaded, and where tensors are made of which nothing is said."""
    first = args[0] if args else NONE
    match path:
        case "torch.load":
            target = devices.as_device(m, kwargs.get("map_location", args[1] if len(args) > 1 else NONE))
            return m.fresh(model.LOADED_TO_HOST, span) if target.is_host else m.result(path, span)
        case "torch.utils.data.DataLoader" if _yields_pageable(m, kwargs, span):
            return m.fresh(model.UNPINNED_LOADER, span)
        case model.SET_DEFAULT_DEVICE:
            devices.make_default(m, first if args else kwargs.get("device", NONE))
            return NONE
        case model.DEFAULT_DEVICE:
            return _BY_DEFAULT if m.default_device == NONE else m.default_device
        case _:
            return None


def _without_work(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What asks or sets something, copies as a method does, or is a part of ``torch.distributed``."""
    last = path.rpartition(".")[2]
    if last in model.PURE_FUNCTIONS:
        if last != "device":
            return given_by(path, *args)
        return replace(devices.of_type(m, *args, **kwargs), places=True)
    if last == "pin_memory" and args and (given := tensors.buffers_in(m, args[:1])):
        # An accelerator's pin_memory is a function, not a method of the tensor.
        return copies.method(m, given[0], last, args[1:], kwargs, span)
    if path.startswith("torch.distributed."):
        made = m.result(path, span)
        m.makers[symbol_of(made)] = path
        return made
    return None


def _of_gradients(
    m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What computes gradients, uses them, or hooks into that."""
    last = path.rpartition(".")[2]
    if path == SAVED_TENSORS_HOOKS:
        return saved_hooks.made(m, args)
    if path.endswith("_execution_engine.queue_callback"):
        return hooks.at_end(m, args, span)
    if path == model.RUNS_BACKWARD:
        return _backward(m, args, kwargs, span)
    if path in model.SCALES_GRADIENTS and args:
        optimizers.scales(m, args[0], last, span)
        return unresolved.opaque(m, path, args, kwargs, span)
    if path.startswith(optimizers.CLASSES) and last[:1].isupper():
        return optimizers.made(m, path, args, kwargs, span)
    if path in model.SCALERS:
        scaler = m.result(path, span)
        m.plain.add(scaler.symbol)
        return scaler
    return None


def _operator(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """``torch.add(x, y)``, ``torch.index_select(table, 0, rows, out=staged)``, ``torch.relu_(x)``."""
    owner, _, last = path.rpartition(".")
    args = [_as_tensor(m, value) if i == 0 else value for i, value in enumerate(args)]
    kwargs = tensors.without_numbers(m, last, kwargs)
    if args and isinstance(args[0], BufferV):
        args[0] = tensor_methods.rows_of(m, args[0], last, args[1:], kwargs)
    out = names.settle(m, kwargs.pop("out", NONE))
    sources = tensors.buffers_in(m, [*args, *kwargs.values()])
    if not sources and out == NONE and owner == "torch" and any(isinstance(a, TupleV) for a in args):
        # torch.normal(0.0, 1.0, (n,)): a size makes a tensor, where factories make theirs.
        return factories.make(m, last, args, kwargs, span)
    if not sources and out == NONE:
        return m.result(path, span)
    if last == model.COPIES_EACH and (done := _copied_each(m, args, kwargs, span)):
        return done
    if last.startswith("_foreach_") and last.endswith("_"):
        return _on_each(m, last, tensors.buffers_in(m, args[:1]), sources, span)
    if sources and (last.endswith("_") or _is_in_place(m, last, kwargs)):
        return in_place.method(m, sources[0], last, list(sources[1:]), {}, span)
    if out != NONE:
        return _into(m, last, out, sources, span)
    made = tensors.operate(m, span, last, list(sources), by=Lib.TORCH.product)
    if path in model.GIVES_SEVERAL and isinstance(made, BufferV):
        return tensor_methods.several(m, made)
    alone = operands.is_nonzero(last, len(args) + len(kwargs))
    if alone or model.size_depends_on_data(last, tensors.buffers_in(m, args[1:]), kwargs):
        sizes.waits(m, sources, span, last)
    else:
        forms.made(m, made, last, [*args, *kwargs.values()])
    return sizes.as_mask(m, made) if last in model.MASKS else made


def _is_in_place(m: Machine, name: str, kwargs: dict[str, Value]) -> bool:
    """``F.relu(x, inplace=True)``"""
    return name in IN_PLACE_IF_ASKED and names.settle(m, kwargs.get("inplace", NONE)) == ConstV(value=True)


def _copied_each(m: Machine, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value | None:
    """``torch._foreach_copy_(pages, rows, non_blocking=True)``: one copy after the other."""
    pairs = [elements.listed(m, value) for value in args[:2]]
    match pairs:
        case [list(targets), list(sources)] if len(targets) == len(sources):
            for target, source in zip(targets, sources, strict=True):
                rest = [source, *args[2:]]
                m.python.call(m, MethodV(_as_tensor(m, target), "copy_"), rest, kwargs, span)
            return NONE
        case _:
            return None


def _on_each(
    m: Machine, name: str, updated: Sequence[BufferV], sources: Sequence[BufferV], span: Span
) -> Value:
    """``torch._foreach_add_(params, gradients)``"""
    read = [reading(view) for view in sources if view not in updated]
    tensors.launch(m, span, [*(Access(v.id, Mode.UPDATE, v.region) for v in updated), *read], name)
    return NONE


def _into(m: Machine, name: str, out: Value, sources: Sequence[BufferV], span: Span) -> Value:
    """``torch.index_select(table, 0, rows, out=staged)``: ``out`` lies where all operands do."""
    _as_tensor(m, out)
    targets = [storage.for_result(m, view, span) for view in tensors.buffers_in(m, [out])]
    accesses = [*map(reading, sources), *(Access(v.id, Mode.WRITE, v.region) for v in targets)]
    on_device = any(m.space(view) is Space.DEVICE for view in sources)
    if tensors.on_host(m, targets) and not on_device:
        m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(accesses), name=name))
    else:
        tensors.launch(m, span, accesses, name)
    return out


def _backward(m: Machine, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """``torch.autograd.backward(output, gradient)``, or of several outputs with a gradient each."""
    outputs, *gradients = args or [kwargs.pop("tensors", NONE)]
    _as_tensor(m, outputs)
    for view in tensors.buffers_in(m, [outputs]):
        tensor_methods.method(m, view, BACKWARD, gradients, kwargs, span)
    return NONE


def _yields_pageable(m: Machine, kwargs: dict[str, Value], span: Span) -> bool:
    """Whether a loader's batches are surely in pageable memory: made by workers, and not pinned."""
    if span in m.spread or "collate_fn" in kwargs or "generator" in kwargs:
        return False
    pinned = names.settle(m, kwargs.get("pin_memory", FALSE))
    workers = names.settle(m, kwargs.get("num_workers", NONE))
    return (
        pinned == FALSE
        and isinstance(workers, ConstV)
        and isinstance(workers.value, int)
        and workers.value > 0
    )


def layer(
    m: Machine, module: Value, function: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """What a layer computes, whose weights need gradients: ``proj(x)``."""
    for operand in tensors.buffers_in(m, args[:1]):
        # What a layer of torch.nn is given, and what it makes, are tensors by its documentation.
        m.is_memory(operand, Evidence.SHOWN)
    begin = len(m.ops)
    output = torch_function(m, f"torch.nn.functional.{function}", args, kwargs, span)
    m.life.by_layers.update(dict.fromkeys(range(begin, len(m.ops)), symbol_of(module)))
    return output
