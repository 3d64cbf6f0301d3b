"""Memory that passes from one library to another, and whether that orders their streams.

* **DLPack** orders: the giver makes the taker's stream wait for its own current stream (measured for
  PyTorch and CuPy). A capsule made beforehand (``to_dlpack(x)``) orders nothing.
* **The CUDA array interface** carries a stream, or none. CuPy's arrays name CuPy's current stream,
  Numba's the stream that they were made with, PyTorch's none. CuPy and Numba synchronize what they
  are given; ``torch.as_tensor`` ignores it (measured).
* **Addresses** order nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import stream_values
from streamlint.interp.state import flavors, lifetime
from streamlint.interp.state.values import BufferV, Flavor, StreamV, Value
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Doubt,
    HandOff,
    Launch,
    Mode,
    Purpose,
    Record,
    Space,
    StreamId,
    SyncStream,
    Wait,
)

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_OBSERVED = frozenset({Doubt.OBSERVED})


def by_address(m: Machine, view: BufferV, span: Span, name: str, *, bare: bool = True) -> BufferV:
    """``x.data_ptr()``, ``a.data.ptr``: from here on anyone may use the memory.

    ``bare``: what is given is a number, and no capsule that holds the memory.
    """
    if flavors.product(view):
        _mark(m, view, None, span, name)
    if bare:
        lifetime.told_as_number(m, view.id)
    return BufferV(view.id, view.region, Flavor.POINTER, bare)


def exported(m: Machine, view: BufferV, stream: Value, span: Span) -> BufferV:
    """``x.__dlpack__(stream=s)``: a capsule, made in order before what ``s`` gets; with -1, of nothing."""
    source = _current_of_giver(m, view)
    if isinstance(stream, StreamV) and source is not None:
        _wait(m, source, stream.id, span, "__dlpack__")
    return by_address(m, view, span, "__dlpack__", bare=False)


def by_interface(m: Machine, view: BufferV, taker: Lib, span: Span, name: str) -> None:
    """``torch.as_tensor(a)``, ``cupy.asarray(x)``, ``cuda.as_cuda_array(x)``."""
    if flavors.product(view) == taker.product:
        return
    stream = None if taker is Lib.TORCH else _named_by_interface(m, view)
    if stream is not None:
        m.emit(SyncStream(m.site(span), m.lane, stream=stream, name=name, purpose=Purpose.ASIDE))
    _mark(m, view, taker, span, name, orders=stream is not None)


def by_dlpack(
    m: Machine, view: BufferV, taker: Lib, stream: StreamId, span: Span, name: str = "from_dlpack"
) -> None:
    """``torch.from_dlpack(a)``, ``cupy.from_dlpack(x)``, ``StridedMemoryView(x, stream_ptr)``."""
    if view.flavor is Flavor.POINTER or flavors.product(view) == taker.product:
        # A capsule or an address was given away before; who made it does not hear of the taker.
        return
    if view.flavor is Flavor.OPAQUE:
        _made_elsewhere(m, view)
    source = _current_of_giver(m, view)
    if source is not None:
        _wait(m, source, stream, span, name)
    _mark(m, view, taker, span, name, orders=source is not None)


def _made_elsewhere(m: Machine, view: BufferV) -> None:
    """What an unresolved call gave is a capsule: who made that need not have used the current stream."""
    written = Access(view.id, Mode.WRITE, doubts=frozenset({Doubt.OPAQUE}))
    for number, op in enumerate(m.ops):
        if isinstance(op, Launch) and written in op.accesses:
            m.ops[number] = replace(op, doubts=op.doubts | {Doubt.GUESSED})
            m.made_of.pop(view.id, None)


def to_numba_kernel(m: Machine, view: BufferV, stream: StreamId, span: Span) -> None:
    """An array of another library as an argument of a Numba kernel.

    Numba takes CuPy's by the array interface, or by DLPack. PyTorch's tensors name no stream in the
    interface; numba-cuda 0.30 takes them by DLPack, for the stream of the launch, which no document
    promises.
    """
    if view.flavor is Flavor.DEVICE_ARRAY:
        by_interface(m, view, Lib.NUMBA, span, "array interface")
    elif view.flavor is Flavor.TORCH and m.space(view) is Space.DEVICE:
        _wait(m, m.current_stream(Lib.TORCH).id, stream, span, "array interface", _OBSERVED)
        _mark(m, view, Lib.NUMBA, span, "the array interface")


def adopted(m: Machine, view: BufferV, taker: Lib, stream: StreamV | None, span: Span, name: str) -> BufferV:
    """``StridedMemoryView(x, stream_ptr)``: by DLPack or the array interface, ordered before ``stream``.

    Without a stream, and for ``Buffer.from_handle(address, size)`` and ``cupy.cuda.UnownedMemory(address,
    size, owner)``, nothing is ordered.
    """
    if stream is not None:
        by_dlpack(m, view, taker, stream.id, span, name)
    elif flavors.product(view) != taker.product:
        _mark(m, view, taker, span, name)
    return BufferV(view.id, view.region, flavors.FLAVORS[taker] if taker is Lib.CORE else Flavor.POINTER)


def as_view(m: Machine, view: BufferV, taker: Lib, span: Span, name: str) -> None:
    """``wp.from_torch(t)`` and ``wp.to_torch(a)``: one memory in both libraries, no order of streams."""
    if flavors.product(view) != taker.product:
        _mark(m, view, taker, span, name)


def _named_by_interface(m: Machine, view: BufferV) -> StreamId | None:
    """The stream that ``__cuda_array_interface__`` names."""
    match view.flavor:
        case Flavor.DEVICE_ARRAY:
            return m.current_stream(Lib.CUPY).id
        case Flavor.NUMBA_ARRAY:
            return stream_values.bound_stream(m, view)
        case _:
            return None


def _current_of_giver(m: Machine, view: BufferV) -> StreamId | None:
    """The stream that DLPack orders before the taker's; Numba's arrays have the array interface only."""
    match view.flavor:
        case Flavor.OPAQUE if (made_on := m.buffers[view.id].alloc_stream) is not None:
            # An array of some library, such as one of JAX: that library knows where it was made.
            return made_on
        case Flavor.OPAQUE:
            return m.current_stream(Lib.TORCH).id
        case Flavor.TORCH | Flavor.DEVICE_ARRAY:
            return m.current_stream(flavors.library(m, view)).id
        case _:
            return _named_by_interface(m, view)


def _wait(
    m: Machine,
    source: StreamId,
    target: StreamId,
    span: Span,
    name: str,
    doubts: frozenset[Doubt] = frozenset(),
) -> None:
    if source != target:
        event = m.event_of("the hand-off", None, None)
        m.emit(Record(m.site(span), m.lane, stream=source, event=event.id))
        m.emit(Wait(m.site(span), m.lane, doubts, stream=target, event=event.id, name=name))


def _mark(
    m: Machine, view: BufferV, taker: Lib | None, span: Span, name: str, *, orders: bool = False
) -> None:
    """Puts the hand-off into the trace; one that orders nothing is the same each time, and put once."""
    to = taker.product if taker is not None else ""
    if m.space(view).on_host or (not orders and (view.id, to) in m.handed):
        return
    if m.space(view) is Space.UNKNOWN and view.flavor is Flavor.OPAQUE:
        # What came from outside has no work of its library in sight.
        return
    if not orders:
        m.handed.add((view.id, to))
    m.emit(HandOff(m.site(span), m.lane, buffer=view.id, taker=to, orders=orders, name=name))
