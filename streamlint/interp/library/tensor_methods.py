"""Attributes and methods of tensors and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import models
from streamlint.frozen import replace
from streamlint.interp.facts import makers
from streamlint.interp.library import (
    arrays,
    axes,
    copies,
    devices,
    dtypes,
    effects,
    factories,
    forms,
    handoffs,
    hooks,
    host_arrays,
    in_place,
    layout,
    sizes,
    storage,
    tensors,
    torch_modules,
    unresolved,
)
from streamlint.interp.state import at_work, elements, flavors, lifetime, names, symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    Flavor,
    FuncV,
    HeapV,
    MethodV,
    StreamV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import host, members, operands
from streamlint.models import torch as model
from streamlint.models.autograd import BACKWARD, KEEPS_GRAPH
from streamlint.models.schema import Lib, Role
from streamlint.trace import (
    Evidence,
    Launch,
    Origin,
    Space,
    Symbol,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def attribute(m: Machine, view: BufferV, name: str, span: Span) -> Value:
    place = storage.place_of(view, name)
    stored = storage.put_on(m, view, name)
    if stored is not None:
        return stored
    if view.flavor in flavors.DEVICE_FLAVORS:
        return arrays.attribute(m, view, name, span)
    if view.flavor is Flavor.POINTER and name in members.OF_POINTERS:
        return view
    if name == "grad" and view.flavor in (Flavor.TORCH, Flavor.OPAQUE):
        made = storage.gradient(m, place, f"{m.buffers[view.id].name}.grad", view)
        m.roles[place] = made
        return made
    if name == model.VIEWED and view.flavor in (Flavor.TORCH, Flavor.OPAQUE):
        return storage.base(m, view)
    if view.flavor is Flavor.OPAQUE:
        if name in model.VIEW_ATTRIBUTES:
            return view
        if name in members.GIVES_ADDRESS:
            return BufferV(view.id, view.region, Flavor.POINTER)
        if members.is_number(name):
            return SymV(symbols.Attr(symbol_of(view), name))
        return MethodV(view, name) if members.is_tensor_method(name) else _part(view, name)
    if view.flavor is Flavor.ARRAY and name == "ctypes":
        # page.ctypes.data + 8: an address, of which arithmetic gives another one
        return BufferV(view.id, view.region, Flavor.POINTER)
    if view.flavor is Flavor.ARRAY and name == "__array_interface__":
        return MethodV(view, name)
    if view.flavor is Flavor.ARRAY and name in host.ARRAY_VIEW_ATTRIBUTES:
        return axes.viewed(m, view, name)
    if view.flavor is Flavor.ARRAY and name in host.CTYPES_VALUES:
        tensors.read_on_host(m, view, span, "read")
        return m.fresh(name, span)
    if name in operands.FIELDS_OF_PAIRS and _made_by(m, view) in operands.GIVES_PAIRS:
        # top = score.topk(4).indices: a tensor, which picks rows.
        return replace(_part(view, name), flavor=Flavor.TORCH)
    if name in operands.ON_CPU and m.space(view) is not Space.UNKNOWN:
        return ConstV(m.space(view).on_host == operands.ON_CPU[name])
    told = form(m, view, name)
    if told is not None:
        return told
    if name in model.VIEW_ATTRIBUTES | members.GIVES_ADDRESS:
        return layout.viewed(m, view, name)
    return MethodV(view, name)


def _made_by(m: Machine, view: BufferV) -> str:
    """The operator whose result some memory is."""
    made = next((op for op in reversed(m.ops) if isinstance(op, Launch) and _is_written(op, view)), None)
    return made.name if made is not None else ""


def _is_written(op: Launch, view: BufferV) -> bool:
    return any(access.buffer == view.id and access.mode.writes for access in op.accesses)


def form(m: Machine, view: BufferV, name: str) -> Value | None:
    """What a tensor says of itself beside its memory: ``x.device``, ``x.shape``, ``x.dtype``."""
    if name == "device":
        return devices.of_memory(m, view)
    is_method = view.flavor is Flavor.TORCH and name in model.META_METHODS
    if name in model.META_ATTRIBUTES or (name in host.ARRAY_META and not is_method):
        return SymV(symbols.Attr(forms.symbol(m, view) if name in model.FORM else symbol_of(view), name))
    return None


def part_of(m: Machine, value: Value) -> Value:
    """What is neither called nor a member of tensors is a part of what was taken for one: ``batch.labels``.

    ``batch = batch.to(device, non_blocking=True)`` moves a tensor, or an object that holds some.
    """
    match value:
        case MethodV(BufferV(flavor=Flavor.TORCH) as view, "__dict__") | MethodV(
            BufferV(flavor=Flavor.CUDF_TABLE) as view
        ):
            return view
        case MethodV(BufferV(flavor=Flavor.TORCH) as view, name) if (
            m.buffers[view.id].kind is not Evidence.SHOWN
            and not members.is_number(name)
            and not members.is_tensor_method(name)
        ):
            # A test of it says nothing: it may be a flag or a number.
            return replace(_part(view, name), flavor=Flavor.OPAQUE)
        case MethodV(BufferV(flavor=Flavor.TORCH) as view, name) if name in at_work.stored(m):
            # param.full = torch.zeros(...): what the program has put on a tensor is no method of it.
            return SymV(storage.place_of(view, name))
        case _:
            return value


def element_of(m: Machine, view: BufferV, key: str) -> BufferV | None:
    """``out["logits"]`` of what a call gave, or was moved as a whole: a part of it, as ``out.logits`` is.

    What code outside passes was a dict before it was taken for a tensor.
    """
    if not _may_be_table(m, view) or members.is_number(key):
        return None
    return replace(_part(view, key), flavor=Flavor.OPAQUE)


def _may_be_table(m: Machine, view: BufferV) -> bool:
    """Whether a call gave something of which nothing says that it is a tensor."""
    known = m.buffers[view.id]
    return known.kind is not Evidence.SHOWN and known.origin is Origin.RESULT


def _of_holder(m: Machine, view: BufferV, name: str, args: list[Value], span: Span) -> Value | None:
    """What only an object has that holds tensors: ``batch.items()``, ``batch.apply(lambda x: x.half())``."""
    given = [value for value in (names.settle(m, arg) for arg in args) if isinstance(value, FuncV)]
    for function in given:
        m.python.call(m, function, [view], {}, span)
    if given:
        return view
    return _of_table(m, view, name, span)


def _of_table(m: Machine, view: BufferV, name: str, span: Span) -> Value | None:
    match name:
        case "keys":
            return m.fresh(name, span)
        case "items":
            return several(m, TupleV((m.fresh("key", span), view)))
        case "values":
            return several(m, view)
        case _:
            return None


def several(m: Machine, one: Value) -> HeapV:
    """An unknown number of things like one."""
    made = m.new_list((), kind="tuple")
    m.heap[made.id].open, m.heap[made.id].sample = True, one
    return made


def _part(view: BufferV, name: str) -> BufferV:
    """``out.logits``: a part of an unresolved result."""
    return replace(view, region=(*view.region, Symbol(f".{name}")))


def _is_told_by(view: BufferV, role: Role) -> bool:
    """Whether the name of a method tells what an array is, of which nothing else does, or an object.

    What lies under an array of NumPy's is memory of some library: ``page.base.get_device_pointer()``.
    """
    return role is Role.OBJECT or (role is Role.BUFFER and view.flavor in (Flavor.OPAQUE, Flavor.ARRAY))


def method(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``tensor.name(...)``"""
    if members.shows_tensor(name, kwargs):
        m.is_memory(view, Evidence.INFERRED)
    if torch_modules.is_module(m, view, name):
        return torch_modules.method(m, view, name, args, kwargs, span)
    if view.flavor is Flavor.POINTER and name == "data_as":
        return host_arrays.numbers_at(m, view, args)
    if (by_row := _by_row(m, view, name, args, kwargs, span)) is not None:
        return by_row
    if view.flavor in flavors.DEVICE_FLAVORS:
        return arrays.method(m, view, name, args, kwargs, span)
    if view.flavor is Flavor.ARRAY:
        return host_arrays.method(m, view, name, args, kwargs, span)
    return (
        _viewed(m, view, name, args, kwargs, span)
        or _asked(m, view, name, args, kwargs, span)
        or _copied(m, view, name, args, kwargs, span)
        or _computed(m, view, name, args, kwargs, span)
    )


def _by_row(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What a table has: a method of a library's memory, or one that shows whose memory it is."""
    if view.flavor is Flavor.POINTER:
        # An address of any library: cupy.cuda.alloc(n), pycuda.driver.mem_alloc(n).
        row = models.find_method(Role.BUFFER, None, name)
    else:
        row = models.find_method(Role.BUFFER, flavors.library(m, view), name)
    if row is not None:
        return effects.apply(m, row[0], row[1], view, args, kwargs, span)
    told = models.find_telling(name, kwargs)
    if told is None or not _is_told_by(view, told[0]):
        return None
    known_as = makers.by_name(m, view, told[1])
    return effects.apply(m, told[1], told[2], view, args, kwargs, span, told=known_as)


def _viewed(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """Parts and views of a tensor, and what becomes of its storage."""
    if name in model.SPLIT_METHODS:
        return several(m, replace(view, axes=axes.row(view)) if name == "unbind" else view)
    if name == "values" and m.buffers[view.id].kind is not Evidence.SHOWN:
        # Tensors have values only if they are sparse: `for t in collate(batch).values()` walks a dict.
        return several(m, replace(view, flavor=Flavor.TORCH))
    if name in operands.ALONG:
        return elements.along(view, name, [names.settle(m, a) for a in (*args, *kwargs.values())])
    if name == "data_ptr":
        return handoffs.by_address(m, view, span, "data_ptr()")
    if name == "view" and args and isinstance(given := names.settle(m, args[0]), StreamV):
        # A proxy of cuda.core's args_viewable_as_strided_memory.
        return handoffs.adopted(m, view, Lib.CORE, given, span, "view")
    if name in model.GIVES_STORAGE:
        return storage.of(m, view)
    if name in model.STORAGE_SIZES and storage.is_storage(view):
        return storage.size(m, view)
    if name == "resize_" and storage.is_storage(view) and args:
        return storage.resized(m, view, args[0], span)
    if name == "resize_" and storage.can_grow(m, view):
        return storage.grown(m, view, [names.settle(m, size) for size in args], span)
    if name == "set_" and args and isinstance(source := names.settle(m, args[0]), BufferV):
        return storage.taken_over(m, view, source)
    return layout.viewed(m, view, name, args) if name in model.VIEW_METHODS else None


def _asked(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What is asked of a tensor without a look at its values."""
    if name == layout.QUESTION and (told_so := layout.answer(m, view, [*args, *kwargs])) is not None:
        return told_so
    if name == "is_pinned" and m.buffers[view.id].residence is Evidence.SHOWN:
        return ConstV(m.space(view) is Space.PINNED)
    if name not in model.META_METHODS or (name == "type" and args):
        return None
    if name in model.GRADIENT_HOOKS and (taken := hooks.register(m, view, name, args, span)):
        return taken
    if name in operands.COUNTS and (count := forms.length(m, view)) is not None:
        return count
    of = forms.symbol(m, view) if name in model.FORM else symbol_of(view)
    if name == "size":
        # ``x.size(0)`` is the same as ``x.shape[0]``.
        shape = symbols.Attr(of, "shape")
        return SymV(symbols.Item(shape, symbol_of(args[0])) if args else shape)
    return SymV(symbols.Call(symbols.Attr(of, name), tuple(map(symbol_of, args))))


def _copied(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """What copies a tensor, brings it to Python, or gives it back where there is nothing to do."""
    if name in operands.COPIES or (name == "type" and args):
        return copies.method(m, view, name, args, kwargs, span)
    if name in model.HOST_READ_METHODS:
        tensors.read_on_host(m, view, span, f"{name}()")
        return m.result(name, span)
    if name in model.NEW_METHODS:
        return factories.make(m, name, args, kwargs, span, like=view)
    if m.space(view).on_host and name in operands.CONVERTS_TO and _has_another_type(m, view, name):
        # page.half(): a new tensor, in pageable memory
        tensors.operate(m, span, name, [view])
        return m.new_buffer("", Space.PAGEABLE, Origin.RESULT, Flavor.TORCH, span)
    if name in operands.MAY_RETURN_OPERAND and name != "to" and m.space(view).on_host:
        # The tensor itself, unless it is strided or of another type. Who looks at it next reads it anyway.
        return view
    is_dense = name == "contiguous" and layout.answer(m, view, [*args, *kwargs]) is not None
    if is_dense or (not kwargs and dtypes.is_same(m, view, operands.CONVERTS_TO.get(name))):
        return view
    if name == "clone" and m.space(view) is Space.PINNED:
        tensors.operate(m, span, name, [view])
        return m.new_buffer("", Space.PAGEABLE, Origin.RESULT, Flavor.TORCH, span)
    return None


def _has_another_type(m: Machine, view: BufferV, name: str) -> bool:
    known = m.forms.dtypes.get(view.id)
    return known is not None and known != operands.CONVERTS_TO[name]


def _computed(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """In-place operators, methods of what may be no tensor after all, and operators."""
    kwargs = tensors.without_numbers(m, name, kwargs)
    if name.endswith("_") and not name.endswith("__"):
        in_place.method(m, rows_of(m, view, name, args, kwargs), name, args, kwargs, span)
        return view
    may_be_table = _may_be_table(m, view) and not (args or kwargs)
    if may_be_table and (listed := _of_table(m, view, name, span)) is not None:
        return listed
    is_private = name.startswith("_") and not name.endswith("__")
    if (is_private or view.flavor is Flavor.OPAQUE) and not members.is_tensor_method(name):
        # What is documented are operators; x._values() may be anything.
        return unresolved.opaque(m, name, [view, *args], kwargs, span)
    if m.buffers[view.id].kind is not Evidence.SHOWN and (held := _of_holder(m, view, name, args, span)):
        return held
    rows = rows_of(m, view, name, args, kwargs)
    made = tensors.operate(m, span, name, [rows, *args], extra=list(kwargs.values()))
    if name == BACKWARD:
        return _ran_backward(m, view, kwargs, span)
    if model.size_depends_on_data(name, tensors.buffers_in(m, args), kwargs):
        sizes.waits(m, [view], span, name)
    else:
        forms.made(m, made, name, [view, *args, *kwargs.values()])
    if name == "contiguous" and isinstance(made, BufferV):
        return layout.made(m, made, name, kwargs)
    return sizes.as_mask(m, made) if name in model.MASKS else made


def _ran_backward(m: Machine, view: BufferV, kwargs: dict[str, Value], span: Span) -> Value:
    keeps_graph = any(copies.is_true(m, kwargs[kept], span, kept) for kept in KEEPS_GRAPH if kept in kwargs)
    if not keeps_graph:
        lifetime.backward_ran(m, view)
    storage.computes_gradients(m)
    return hooks.in_backward(m, span, keeps_graph=keeps_graph, is_seen=True)


def rows_of(m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value]) -> BufferV:
    """The rows that a method works on: ``pages.index_select(0, slots)``."""
    index = kwargs.get("index", args[1] if len(args) > 1 else NONE)
    return elements.rows(m, view, index) if name in members.BY_ROWS else view
