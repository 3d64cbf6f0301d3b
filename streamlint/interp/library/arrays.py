"""Arrays of CuPy, Numba and cuda.core: their functions, methods and kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.facts import decorators, known_values
from streamlint.interp.library import (
    addresses,
    allocators,
    array_interface,
    between_devices,
    configured,
    copies,
    devices,
    handoffs,
    in_place,
    kernel_places,
    kernels,
    layout,
    mapped,
    operations,
    stream_values,
    tensors,
    triton,
    unresolved,
)
from streamlint.interp.state import flavors, lifetime, names, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    ConstV,
    Flavor,
    FuncV,
    HeapV,
    MethodV,
    PartialV,
    Shape,
    StreamV,
    SymV,
    TupleV,
    Value,
    given_by,
    reading,
    symbol_of,
)
from streamlint.models import cuda_core as core_model
from streamlint.models import cupy as cupy_model
from streamlint.models import dali as dali_model
from streamlint.models import numba as numba_model
from streamlint.models import opencv as opencv_model
from streamlint.models import pylibcudf as cudf_model
from streamlint.models.operands import FILLS_GAPS
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Doubt,
    Evidence,
    Launch,
    Mode,
    Origin,
    Purpose,
    Space,
    StreamChoice,
    SyncStream,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_VIEWS = cupy_model.VIEWS | numba_model.VIEWS | opencv_model.VIEWS
_META = {
    Flavor.NUMBA_ARRAY: numba_model.META,
    Flavor.CUDF_TABLE: cudf_model.META,
    Flavor.GPU_MAT: opencv_model.META,
    Flavor.CORE_BUFFER: core_model.META,
}
"""What the host knows of an array without asking the device; of any other it is as of CuPy's."""


# ----------------------------------------------------------------------------- attributes and methods


def attribute(m: Machine, view: BufferV, name: str, span: Span) -> Value:
    """``array.name``"""
    if name in cupy_model.BARE_ADDRESSES | cupy_model.ADDRESSES:
        return handoffs.by_address(m, view, span, name, bare=name in cupy_model.BARE_ADDRESSES)
    if name == "device" and view.flavor in (Flavor.DEVICE_ARRAY, Flavor.WARP_ARRAY):
        return devices.of_memory(m, view)
    if name in cupy_model.VIEW_ATTRIBUTES:
        return _viewed(m, view, name)
    if name in _meta(view):
        return SymV(symbols.Attr(symbol_of(view), name))
    return MethodV(view, name)


def _meta(view: BufferV) -> frozenset[str]:
    return _META.get(view.flavor, cupy_model.META)


def _viewed(m: Machine, view: BufferV, name: str) -> BufferV:
    """``x.T``, ``cp.swapaxes(x, 0, 1)``: the same memory, whose elements may stand in another order."""
    if name in cupy_model.TRANSPOSES:
        m.forms.turned.add(view.id)
    return view


def method(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``array.name(...)``, for names that have no row."""
    if name == "toDlpack":
        return handoffs.by_address(m, view, span, name, bare=False)
    if name == array_interface.DLPACK:
        return handoffs.exported(m, view, names.settle(m, kwargs.get("stream", NONE)), span)
    if name in _VIEWS:
        return _viewed(m, view, name)
    if name in cupy_model.SPLITS:
        return _parts(m, view)
    if view.flavor is Flavor.DALI_OUTPUT:
        return view if name in dali_model.VIEWS else m.result(symbols.Attr(symbol_of(view), name), span)
    if view.flavor is Flavor.CUDF_TABLE and name not in cudf_model.META:
        if "stream" not in kwargs:
            return view
        operands = tensors.buffers_in(m, [view, *args], unknown=False)
        return operations.work(m, Lib.CUDF, name, operands, kwargs["stream"], span)
    if view.flavor is Flavor.PYCUDA_ARRAY and "stream" in kwargs:
        # As in wide = rows.astype(np.float64, stream=lane).
        operands = tensors.buffers_in(m, [view, *args], unknown=False)
        return operations.work(m, Lib.PYCUDA, name, operands, kwargs["stream"], span)
    if view.flavor in (Flavor.CORE_BUFFER, Flavor.RMM_BUFFER) or name in _meta(view):
        return m.result(symbols.Attr(symbol_of(view), name), span)
    if name in cupy_model.HOST_READS:
        tensors.read_on_host(m, view, span, f"{name}()")
        return m.result(name, span)
    if name in cupy_model.IN_PLACE:
        _in_place(m, view, name, args, span)
        return NONE
    if name == "astype" and not copies.is_true(m, kwargs.get("copy", ConstV(True)), span, "copy"):
        name = "astype(copy=False)"
    if name == "copy" and view.flavor is Flavor.DEVICE_ARRAY:
        with between_devices.from_another_device(m, view, span):
            return operator(m, name, [view, *args], kwargs, span)
    return operator(m, name, [view, *args], kwargs, span)


def _parts(m: Machine, view: BufferV) -> Value:
    made = m.new_list(())
    m.heap[made.id].open, m.heap[made.id].sample = True, view
    return made


def _in_place(m: Machine, view: BufferV, name: str, args: Sequence[Value], span: Span) -> None:
    mode = Mode.WRITE if name == "fill" else Mode.UPDATE
    sources = tensors.buffers_in(m, args, unknown=False)
    reads = [reading(source) for source in sources]
    accesses = (Access(view.id, mode, view.region), *reads)
    tensors.work(m, span, _current(m, view).id, accesses, name, library=flavors.product(view))


def _current(m: Machine, view: BufferV) -> StreamV:
    return m.current_stream(flavors.library(m, view), m.buffers[view.id].device)


# ----------------------------------------------------------------------------- cupy.*


def cupy_function(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """``cupy.name(...)`` and ``cupyx...``: anything not named in the model is an operator."""
    parts = path.split(".")
    last = parts[-1]
    if last == "get_array_module":
        return ApiV("cupy")
    if last.removesuffix("()") in cupy_model.ELEMENTWISE and last.endswith("()"):
        return _elementwise(m, last[:-2], args, kwargs, span)
    if last[:1].isupper() or (len(parts) > 2 and not cupy_model.QUIET_PARTS.isdisjoint(parts[1:-1])):
        return m.result(path, span)
    if last in cupy_model.META | cupy_model.QUIET_PARTS or _is_scalar_type(last):
        return given_by(path, *args)
    if last in cupy_model.FACTORIES and "out" not in kwargs:
        # Not generator.random(out=table), which writes what is there.
        return _factory(m, last, args, kwargs, span)
    if last in cupy_model.LIKE_FACTORIES:
        return _factory(m, last, [], kwargs, span)
    given = [*args, *(value for key, value in kwargs.items() if key in cupy_model.FIRST)]
    if last == "from_dlpack":
        given = [array_interface.given_to(m, one, m.current_stream(Lib.CUPY), span) for one in given]
    if last in cupy_model.FROM_HOST:
        return _from_host(m, last, given[0] if given else NONE, kwargs, span)
    first = tensors.buffers_in(m, given[:1])
    if last in cupy_model.TAKES_CAPSULES:
        return _from_dlpack(m, first, span)
    if first and last in cupy_model.VIEWS:
        return _viewed(m, BufferV(first[0].id, first[0].region, Flavor.DEVICE_ARRAY), last)
    if first and last in cupy_model.SPLITS:
        return _parts(m, first[0])
    if first and last == "copyto":
        in_place.assign(m, first[0], given[1] if len(given) > 1 else NONE, span, NONE)
        return NONE
    if first and last in cupy_model.IN_PLACE:
        _in_place(m, first[0], last, given[1:], span)
        return NONE
    return operator(m, last, args, kwargs, span)


def _is_scalar_type(name: str) -> bool:
    return name.rstrip("0123456789") in cupy_model.SCALAR_TYPES


def _factory(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    stream = m.current_stream(Lib.CUPY)
    if name == "ndarray":
        held = tensors.buffers_in(m, [*args[2:3], *(v for k, v in kwargs.items() if k == "memptr")])
        if held:
            return mapped.note(m, BufferV(held[0].id, held[0].region, Flavor.DEVICE_ARRAY))
    if name in cupy_model.UNFILLED:
        lifetime.before_allocation(m, stream.id, span)
    made = _new_array(m, Origin.ALLOCATED, span, stream)
    if name not in cupy_model.UNFILLED:
        tensors.work(m, span, stream.id, (Access(made.id, Mode.WRITE),), name, library=Lib.CUPY.product)
    return made


def _new_array(
    m: Machine, origin: Origin, span: Span, stream: StreamV, flavor: Flavor = Flavor.DEVICE_ARRAY
) -> BufferV:
    return m.new_buffer("", allocators.place(m, flavor), origin, flavor, span, stream.id)


def _from_host(m: Machine, name: str, source: Value, kwargs: dict[str, Value], span: Span) -> Value:
    """``cp.asarray(x)``: a copy of a host array on the current stream; a device array as it is."""
    table = addresses.listed(m, source)
    found = [] if table else tensors.buffers_in(m, [array_interface.memory_of(m, source, span)])
    stream = m.current_stream(Lib.CUPY)
    if found and m.space(found[0]) in (Space.DEVICE, Space.MANAGED) and found[0].flavor is not Flavor.ARRAY:
        return _adopt(m, name, found[0], kwargs, span)
    made = _new_array(m, Origin.RESULT, span, stream)
    if table:
        m.addresses[made.id] = table
    blocking = copies.is_true(m, kwargs.get("blocking", ConstV(False)), span, "blocking")
    if found and m.space(found[0]).on_host:
        by = Lib.CUPY.product
        copies.on_stream(m, made, found[0], stream.id, span, blocking=False, name=name, library=by)
    else:
        numpys = bool(found) and _is_numpys(m, found[0])
        for view in found:
            if numpys:
                m.is_not_pending(view)
            else:
                # On the host or on the device, which is not known.
                handoffs.by_interface(m, view, Lib.CUPY, span, name)
                tensors.may_give_back(m, made, view, name)
        accesses = [reading(view) for view in found]
        accesses.append(Access(made.id, Mode.WRITE))
        # What asarray() makes of an array of NumPy's is a new one, as array() makes it.
        tensors.work(m, span, stream.id, accesses, "array" if numpys else name, library=Lib.CUPY.product)
    if blocking and all(m.space(view).on_host for view in found):
        # cp.asarray(table, blocking=True) waits for the stream of a copy from the host.
        m.emit(SyncStream(m.site(span), m.lane, stream=stream.id, name=name, purpose=Purpose.ASIDE))
    return made


def _is_numpys(m: Machine, view: BufferV) -> bool:
    """Whether NumPy has made an array of it, or an annotation says that it is one: ``tile: np.ndarray``."""
    given = m.given.get(view.id)
    return view.flavor is Flavor.ARRAY or (
        given is not None and known_values.of_value(m, given).space.on_host
    )


def _adopt(m: Machine, name: str, view: BufferV, kwargs: dict[str, Value], span: Span) -> Value:
    """A device array taken by CuPy."""
    handoffs.by_interface(m, view, Lib.CUPY, span, name)
    copied = name == "array" and copies.is_true(m, kwargs.get("copy", ConstV(True)), span, "copy")
    if copied or (name in FILLS_GAPS and layout.has_gaps(m, view)):
        return operator(m, name, [view], {}, span)
    return BufferV(view.id, view.region, Flavor.DEVICE_ARRAY)


def _from_dlpack(m: Machine, found: list[BufferV], span: Span) -> Value:
    if not found:
        return m.fresh("from_dlpack", span)
    handoffs.by_dlpack(m, found[0], Lib.CUPY, m.current_stream(Lib.CUPY).id, span)
    return BufferV(found[0].id, found[0].region, Flavor.DEVICE_ARRAY)


def operator(
    m: Machine,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    on: StreamV | None = None,
) -> Value:
    """Reads its operands on CuPy's current stream, or ``on`` another one; writes ``out`` or a new array."""
    operands = list(args)
    out = next((kwargs[key] for key in cupy_model.OUTPUTS if key in kwargs), NONE)
    arity = 2 if name in cupy_model.BINARY_UFUNCS else 1 if name in cupy_model.UNARY_UFUNCS else 0
    if arity and len(operands) > arity:
        out = operands.pop(arity)
    further = [value for key, value in kwargs.items() if key not in cupy_model.OUTPUTS]
    sources = tensors.buffers_in(m, [*operands, *further])
    for view in sources:
        if view.flavor is Flavor.TORCH:
            handoffs.by_interface(m, view, Lib.CUPY, span, name)
    targets = tensors.buffers_in(m, [out])
    for view in targets:
        # cp.add(x, 1.0, out=level.end): kernels of CuPy write arrays of a device only.
        if m.space(view) is Space.UNKNOWN:
            m.lives(view, Space.DEVICE, Evidence.INFERRED)
    if not sources and not targets and not any(isinstance(names.settle(m, v), SymV) for v in operands):
        return m.result(name, span)
    other = next((v for v in sources if v.flavor in flavors.DEVICE_FLAVORS - {Flavor.DEVICE_ARRAY}), None)
    stream = on or (_current(m, other) if other is not None else m.current_stream(Lib.CUPY))
    reads = [reading(view) for view in sources]
    result: Value = out
    if not targets:
        flavor = other.flavor if other is not None else Flavor.DEVICE_ARRAY
        made = _new_array(m, Origin.RESULT, span, stream, flavor)
        targets, result = [made], made
        if len(sources) == 1:
            tensors.may_give_back(m, made, sources[0], name)
    writes = [Access(view.id, Mode.WRITE, view.region) for view in targets]
    by = flavors.product(other) if other is not None else Lib.CUPY.product
    choice = StreamChoice.IMPLIED if on is None else StreamChoice.NAMED
    tensors.work(m, span, stream.id, (*reads, *writes), name, library=by, choice=choice)
    if name in cupy_model.DRAINING:
        m.emit(SyncStream(m.site(span), m.lane, stream=stream.id, name=name, purpose=Purpose.VALUES))
    return result


def _elementwise(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """``ElementwiseKernel('float32 x', 'float32 y', ...)``: what follows the inputs is written."""
    held = kwargs.get("in_params", NONE)
    inputs = len(args)
    if isinstance(held, ConstV) and isinstance(held.value, str):
        inputs = len([part for part in held.value.split(",") if part.strip()])
    out = kwargs.get("out", args[inputs] if len(args) > inputs else NONE)
    given = kwargs.get("stream", NONE)
    on = None if given == NONE else stream_values.as_stream(m, given, span, Lib.CUPY)
    return operator(m, name, args[:inputs], {"out": out}, span, on)


# ----------------------------------------------------------------------------- Numba


def numba_function(m: Machine, path: str, args: list[Value], span: Span) -> Value | None:
    """``numba.cuda.jit`` as a function, and arrays of other libraries taken by Numba."""
    last = path.rpartition(".")[2]
    first = names.settle(m, args[0]) if args else NONE
    if isinstance(first, MethodV) and first.name == "__cuda_array_interface__":
        first = first.receiver
    if path in numba_model.KERNEL_DECORATORS:
        # cuda.jit(f) gives the kernel, cuda.jit("void(int32[:])") a decorator.
        return PartialV(ApiV("numba.cuda.jit()"), (first,), {}) if isinstance(first, FuncV) else ApiV(path)
    if last in numba_model.TAKES_ARRAYS:
        found = tensors.buffers_in(m, [array_interface.memory_of(m, first, span)])
        if not found:
            return m.fresh(last, span)
        handoffs.by_interface(m, found[0], Lib.NUMBA, span, last)
        return BufferV(found[0].id, found[0].region, Flavor.NUMBA_ARRAY)
    return None


def launch_triton(
    m: Machine, kernel: FuncV, args: Sequence[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``kernel[grid](x, y, n, BLOCK=128)`` of Triton: on PyTorch's current stream."""
    uses = triton.uses(m, kernel, args, kwargs)
    if uses is None:
        return unresolved.launch_kernel(m, kernel.function.name, args, kwargs, span)
    given = dict(zip(uses, args, strict=False)) | kwargs
    accesses = [
        Access(view.id, mode, kernel_places.placed(view, use.place, given).region)
        for name, use in uses.items()
        if (mode := use.mode) is not None
        for view in tensors.buffers_in(m, [given.get(name, NONE)])
    ]
    tensors.launch(m, span, accesses, kernel.function.name)
    return NONE


def launch(
    m: Machine, kernel: Value, config: Value, args: Sequence[Value], span: Span, by: Lib = Lib.NUMBA
) -> Value:
    """``kernel[config](args)`` on the stream of its configuration.

    ``by`` is who launches what is no kernel in sight: ``wp.launch(self.update, ...)`` is Warp.
    """
    lib = (decorators.kernel_of(m.project, kernel.function) if isinstance(kernel, FuncV) else None) or by
    given = _configured_stream(m, config)
    stream = _launch_stream(m, given, lib, span)
    uses = kernels.python_uses(m, kernel) if isinstance(kernel, FuncV) else None
    by_place = list(uses.values()) if uses is not None else []
    given_by_name = dict(zip(uses or (), args, strict=False))
    accesses: list[Access] = []
    host: list[Access] = []
    for i, arg in enumerate(args):
        use = by_place[i] if i < len(by_place) else kernels.Use(Mode.UPDATE)
        if use.mode is None:
            continue
        for view in tensors.buffers_in(m, [arg], unknown=use.indexed):
            if m.space(view) is Space.UNKNOWN and view.flavor is Flavor.OPAQUE:
                # What a kernel indexes is an array on the device, or numba would copy it there and back.
                m.set_space(view, Space.DEVICE)
            target = host if configured.copies_there_and_back(m, view, lib, given) else accesses
            target.append(
                Access(view.id, use.mode, kernel_places.placed(view, use.place, given_by_name).region)
            )
            if lib is Lib.NUMBA:
                handoffs.to_numba_kernel(m, view, stream.id, span)
    name = kernel.function.name if isinstance(kernel, FuncV) else _field(kernel) or "kernel"
    doubts = frozenset() if uses is not None else frozenset({Doubt.OPAQUE})
    m.emit(
        Launch(
            m.site(span),
            m.lane,
            doubts,
            stream=stream.id,
            accesses=(*accesses, *host),
            name=name,
            library=lib.product,
            choice=stream_values.stream_choice(m, given, args),
            # Warp selects the device of the stream by itself.
            issued_on=m.exact_device if lib is not Lib.WARP else None,
        )
    )
    if host:
        # Numba copies host arrays to the device before the kernel and back after it.
        m.emit(SyncStream(m.site(span), m.lane, stream=stream.id, name=name, purpose=Purpose.ASIDE))
    return NONE


def _field(value: Value) -> str | None:
    """``update`` of ``self.update``."""
    return value.symbol.name if isinstance(value, SymV) and isinstance(value.symbol, symbols.Attr) else None


def _configured_stream(m: Machine, config: Value) -> Value:
    """What stands for the stream in ``[grid, block, stream]``."""
    config = names.settle(m, config)
    items: Sequence[Value] = ()
    match config:
        case TupleV(held):
            items = held
        case HeapV(number) if m.heap[number].shape is not Shape.INSTANCE:
            items = m.heap[number].items
        case SymV(symbol):
            # The whole configuration comes from outside, and a stream may be in it.
            return SymV(symbols.Attr(symbol, "stream"))
        case _:
            pass
    return names.settle(m, items[2]) if len(items) > 2 else NONE


def _launch_stream(m: Machine, given: Value, lib: Lib, span: Span) -> StreamV:
    match given:
        case StreamV():
            return given
        case ConstV(None):
            return m.current_stream(lib)
        case ConstV(int() as handle):
            return stream_values.handle_stream(m, handle, lib)
        case _:
            return stream_values.as_stream(m, given, span, lib)


def kernel_method(
    m: Machine, kernel: FuncV, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value | None:
    """``kernel.forall(n, stream=s)`` and ``kernel.configure(grid, block, s)``: configured kernels."""
    if name not in numba_model.CONFIGURES or decorators.kernel_of(m.project, kernel.function) is None:
        return None
    at = 2
    stream = kwargs.get("stream", args[at] if len(args) > at else NONE)
    return PartialV(ApiV(configured.LAUNCH), (kernel, TupleV((NONE, NONE, stream))), {})


def rawkernel_call(
    m: Machine, kernel: FuncV, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``cupyx.jit.rawkernel``: ``kernel((grid,), (block,), (args...), stream=s)``."""
    packed = names.settle(m, kwargs.get("args", args[2] if len(args) > 2 else NONE))
    stream = kwargs.get("stream", NONE)
    given = packed.items if isinstance(packed, TupleV) else ()
    return launch(m, kernel, TupleV((NONE, NONE, stream)), given, span)
