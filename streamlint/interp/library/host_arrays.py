"""Arrays of numpy and ctypes: how they are made, and which calls read or write the host's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import known_values
from streamlint.interp.facts.kinds import Kind
from streamlint.interp.library import array_interface, arrays, axes, handoffs, tensors
from streamlint.interp.state import elements, symbols
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    CallbackV,
    ConstV,
    Flavor,
    FuncV,
    PartialV,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models import host
from streamlint.models.schema import Lib
from streamlint.trace import Access, Evidence, HostAccess, Mode, Origin, Space

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def method(
    m: Machine, view: BufferV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    if name in host.ARRAY_META:
        return SymV(symbols.Attr(symbol_of(view), name))
    if name in host.ARRAY_VIEWS:
        return axes.viewed(m, view, name, args)
    if name in host.ARRAY_WRITES:
        tensors.write_on_host(m, view, span, name)
        return NONE
    tensors.read_on_host(m, view, span, f"{name}()")
    out = kwargs.get("out")
    for target in tensors.buffers_in(m, [out] if out is not None else [], unknown=False):
        tensors.write_on_host(m, target, span, name)
    for source in tensors.buffers_in(m, args, unknown=False):
        tensors.read_on_host(m, source, span, f"{name}()")
    return (
        m.new_buffer("", Space.PAGEABLE, Origin.RESULT, Flavor.ARRAY, span)
        if name in host.ARRAY_COPIES
        else m.fresh(name, span)
    )


def view(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """Another array over the same memory: ``np.frombuffer(x)``, ``torch.from_numpy(a)``."""
    seen_as = [*args[:1], *(v for k, v in kwargs.items() if k in host.VIEWED_BY)]
    if path.startswith("numpy."):
        seen_as = [array_interface.memory_of(m, v, span, array_interface.OF_HOST) for v in seen_as]
    if path == "torch.from_dlpack":
        here = m.current_stream(Lib.TORCH)
        seen_as = [array_interface.given_to(m, v, here, span) for v in seen_as]
    found = tensors.buffers_in(m, seen_as, unknown=False)
    if not found:
        source = args[0] if args else NONE
        if isinstance(source, CallbackV):
            return source if path in host.KEEPS_ITS_OBJECT else replace(source, address=True)
        if isinstance(source, (FuncV, PartialV)):
            return source
        if isinstance(source, SymV):
            made = tensors.as_buffer(m, source, Flavor.ARRAY, Evidence.SHOWN)
            if path in host.OF_HOST_MEMORY:
                m.is_host_array(made)
            return BufferV(made.id, (), Flavor.TORCH if path == "torch.from_numpy" else Flavor.ARRAY)
        return m.new_buffer("", Space.PAGEABLE, Origin.ALLOCATED, Flavor.ARRAY, span)
    seen = found[0]
    if path in host.SHAPED and seen.flavor is Flavor.DEVICE_ARRAY:
        # numpy hands its functions over to CuPy for CuPy's arrays.
        return arrays.operator(m, path.rpartition(".")[2], args, kwargs, span)
    if path in host.GIVES_ADDRESS:
        return numbers_at(m, seen, args[1:])
    given = m.given.get(seen.id)
    if given is not None and known_values.of_value(m, given).space.on_host:
        # An annotation says so: ``page: np.ndarray``, and then torch.from_dlpack(page).
        m.is_host_array(seen)
    if path in host.OF_HOST_MEMORY or (path.startswith("numpy.") and seen.flavor is Flavor.OPAQUE):
        # np.asarray(pool.take(n)): what NumPy sees is on the host, and nothing says that a stream fills it.
        m.is_host_array(seen)
    on_device = m.space(seen) is Space.DEVICE and seen.flavor is not Flavor.ARRAY
    if on_device and path.startswith("numpy."):
        tensors.read_on_host(m, seen, span, path)
    if path.endswith("from_dlpack") and path.startswith("torch."):
        handoffs.by_dlpack(m, seen, Lib.TORCH, m.current_stream(Lib.TORCH).id, span)
    elif path.endswith("to_dlpack"):
        return handoffs.by_address(m, seen, span, "to_dlpack()", bare=False)
    elif path == "torch.as_tensor":
        handoffs.by_interface(m, seen, Lib.TORCH, span, "as_tensor")
    flavor = Flavor.TORCH if path.startswith("torch.") else Flavor.ARRAY
    # A buffer of cuda.core is exported as bytes in a row (cuda_core/cuda/core/_dlpack.pyx).
    in_a_row = seen.flavor is Flavor.CORE_BUFFER
    known_axes = 1 if in_a_row else axes.of_function(m, path, seen, args, kwargs.get("shape"))
    return BufferV(seen.id, seen.region, flavor, axes=known_axes)


def numbers_at(m: Machine, address: BufferV, kinds: list[Value]) -> BufferV:
    """``ctypes.cast(host, ctypes.POINTER(ctypes.c_int))`` of host memory, of which ``[0]`` reads a number."""
    if not any(_is_of_numbers(kind) for kind in kinds) or not m.space(address).on_host:
        return address
    return BufferV(address.id, address.region, Flavor.ARRAY, axes=1)


def split(m: Machine, args: list[Value]) -> Value | None:
    """``np.split(page, 4)``: views of parts; None for what is no array of the host."""
    match args:
        case [BufferV(flavor=Flavor.ARRAY) as whole, *_]:
            made = m.new_list(())
            m.heap[made.id].open, m.heap[made.id].sample = True, whole
            return made
        case _:
            return None


def _is_of_numbers(kind: Value) -> bool:
    """``POINTER(c_int)``, or ``POINTER(c_int * n)``."""
    match kind:
        case ApiV(path):
            return path != host.ADDRESS_TYPE
        case SymV(symbols.Binary("*", symbols.Name(element))):
            return element.startswith("ctypes.")
        case _:
            return False


def allocate(m: Machine, name: str, args: list[Value], span: Span) -> Value:
    given = tensors.buffers_in(m, args, unknown=False)
    if name in host.TAKES_VALUES:
        for view in given:
            tensors.read_on_host(m, view, span, f"{name}()")
    made = m.new_buffer("", Space.PAGEABLE, Origin.ALLOCATED, Flavor.ARRAY, span)
    made = replace(made, axes=_axes_made(m, name, args))
    listed = elements.listed(m, args[0]) if args and name == "array" else None
    if name == "array" and not given:
        m.buffers[made.id] = replace(m.buffers[made.id], of_values=True)
    if listed is not None and given:
        m.addresses[made.id] = tuple(listed)
    return made


def of_values(m: Machine, values: list[Value], span: Span) -> BufferV:
    """``(ctypes.c_void_p * 2)(ctypes.addressof(x), ctypes.addressof(y))``: what it holds may be addresses."""
    made = m.new_buffer("", Space.PAGEABLE, Origin.ALLOCATED, Flavor.ARRAY, span)
    if tensors.buffers_in(m, values, unknown=False):
        m.addresses[made.id] = tuple(values)
    return replace(made, axes=1)


def _axes_made(m: Machine, name: str, args: list[Value]) -> int | None:
    first = args[0] if args else None
    if name in host.TAKES_VALUES or name.endswith("_like"):
        return None if first is None else axes.of_values(m, first)
    return axes.of_sizes(m, args) if name in host.TAKES_SIZES else axes.of_shape(m, first)


def copied(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    to, of = host.MEMORY_FUNCTIONS[path]
    args = args + [kwargs[name] for name in host.MEMORY_KEYWORDS.get(path, ())[len(args) :] if name in kwargs]
    accesses: list[Access] = []
    for position, mode in ((to, Mode.WRITE), (of, Mode.READ)):
        if position is not None and position < len(args):
            accesses += [
                Access(v.id, mode, v.region) for v in tensors.buffers_in(m, [args[position]], unknown=False)
            ]
    m.emit(HostAccess(m.site(span), m.lane, accesses=tuple(accesses), name=path.rpartition(".")[2]))
    return NONE if to is not None else m.result(path, span)


def function(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> Value:
    """A numpy function reads its arrays and writes ``out``."""
    out = kwargs.get("out")
    if path.endswith(host.AT_PLACES) and args:
        out, args = args[0], args[1:]
    inputs = host.UFUNC_INPUTS.get(path.rpartition(".")[2], len(args))
    if out is None and len(args) > inputs:
        # np.negative(row, page) writes its second argument, np.modf(x, part, whole) two.
        args, out = args[:inputs], TupleV(tuple(args[inputs:])) if len(args) > inputs + 1 else args[inputs]
    reads = tensors.buffers_in(m, [*args, *(v for k, v in kwargs.items() if k != "out")], unknown=False)
    if any(view.flavor is Flavor.DEVICE_ARRAY for view in reads):
        # numpy hands its functions over to CuPy for CuPy's arrays.
        return arrays.operator(m, path.rpartition(".")[2], args, kwargs, span)
    for view in reads:
        tensors.read_on_host(m, view, span, path.rpartition(".")[2])
    for view in tensors.buffers_in(m, [out] if out is not None else [], unknown=False):
        tensors.write_on_host(m, view, span, path.rpartition(".")[2])
    if out is not None and not (reads and not kwargs.get("dtype")):
        return out
    given = m.result(path, span)
    if reads or path in host.MAKES_NUMBERS or _are_of_host(m, args):
        # numpy.abs(page), of which page.max() is asked then: it is an array of NumPy's itself.
        m.of_numpy.add(given.symbol)
    return given


def _are_of_host(m: Machine, values: list[Value]) -> bool:
    """Whether there is an array of the host, and none of another library, to which NumPy leaves the work."""
    said = [known_values.of_value(m, value.symbol) for value in values if isinstance(value, SymV)]
    others = [value for value in values if not isinstance(value, (SymV, ConstV, ApiV))]
    return (
        not others
        and any(fact.space is Space.PAGEABLE for fact in said)
        and all(fact.space is Space.PAGEABLE or fact.kind is Kind.PLAIN for fact in said)
    )
