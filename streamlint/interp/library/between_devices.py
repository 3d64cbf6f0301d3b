"""Copies between two devices: on which stream they run, and what is ordered with them."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.library import devices
from streamlint.interp.state import symbols
from streamlint.interp.state.values import BufferV, DeviceV, Flavor, StreamV, reading, symbol_of
from streamlint.models.schema import Lib
from streamlint.trace import (
    Access,
    Doubt,
    Launch,
    Mode,
    Origin,
    Record,
    Space,
    StreamId,
    StreamKind,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span


def ordered(m: Machine, dst: BufferV, src: BufferV, span: Span, name: str) -> None:
    """PyTorch orders a copy between devices with the current streams of both (measured).

    Where one of them has a name only (``x.to(f"cuda:{ids[n]}")``), they may as well be one.
    """
    source = m.current_stream(Lib.TORCH, m.buffers[src.id].device)
    target = m.current_stream(Lib.TORCH, m.buffers[dst.id].device)
    named = any(devices.name_of(m, view) is not None for view in (dst, src))
    unsure = frozenset({Doubt.DEVICE}) if named else frozenset[Doubt]()
    accesses = (reading(src), Access(dst.id, Mode.WRITE, dst.region, unsure))
    by = Lib.TORCH.product
    with in_order_with(m, source.id, [target.id], span):
        m.emit(Launch(m.site(span), m.lane, stream=source.id, accesses=accesses, name=name, library=by))


@contextmanager
def in_order_with(m: Machine, stream: StreamId, others: Iterable[StreamId], span: Span) -> Iterator[None]:
    """What the block queues on a stream starts after the work of other streams, and they wait for it."""
    for other in others:
        _waits(m, stream, other, span)
    yield
    for other in others:
        _waits(m, other, stream, span)


def _waits(m: Machine, waiting: StreamId, other: StreamId, span: Span) -> None:
    event = m.event_of("a copy between devices", None, Lib.TORCH)
    m.emit(Record(m.site(span), m.lane, stream=other, event=event.id))
    m.emit(Wait(m.site(span), m.lane, stream=waiting, event=event.id, name="copy between devices"))


def from_another_device(m: Machine, src: BufferV, span: Span) -> AbstractContextManager[None]:
    """``array.copy()`` of CuPy, where another device is current than the array's: a copy between devices.

    On the legacy default stream it starts after the work that was issued to either, and work issued later
    starts after it: see ``other_devices``.
    """
    stream, device = m.current_stream(Lib.CUPY).id, m.buffers[src.id].device
    here = m.streams[stream]
    if device == here.device or here.kind not in (StreamKind.LEGACY, StreamKind.CURRENT):
        return nullcontext()
    there = (m.default(StreamKind.LEGACY, None, device), m.current_stream(Lib.CUPY, device))
    others = dict.fromkeys(other.id for other in there if other.id != stream)
    return in_order_with(m, stream, others, span)


def other_devices(m: Machine, dst: BufferV, src: BufferV, stream: StreamId) -> list[StreamId]:
    """The default streams of the other devices that a copy on the legacy default stream is ordered with.

    Such a copy between two devices starts after all work issued to either, and work issued later to either
    starts after it (CUDA programming guide, "Peer-to-Peer Memory Copy").
    """
    on = m.streams[stream]
    where = {m.buffers[view.id].device for view in (dst, src) if not m.space(view).on_host}
    if on.kind is not StreamKind.LEGACY or len(where) < 2:
        return []
    return [m.default(StreamKind.LEGACY, None, device).id for device in sorted(where - {on.device})]


def is_named_apart(m: Machine, view: BufferV, device: DeviceV) -> bool:
    """Whether a tensor was moved to another device of those that code tells apart.

    ``x = x.to(self.first)``, and then ``x.to(self.second)``.
    """
    return _are_apart(m, devices.name_of(m, view), device.symbol)


def moved(m: Machine, view: BufferV, device: DeviceV, span: Span) -> BufferV:
    """A copy between devices that have one id here: on the stream that is current where ``view`` is.

    The current stream of the other device waits for it by itself.
    """
    stream = m.current_stream(Lib.TORCH, m.buffers[view.id].device)
    made = m.new_buffer(
        "", Space.DEVICE, Origin.RESULT, Flavor.TORCH, span, stream.id, m.streams[stream.id].device
    )
    devices.is_named(m, made, device)
    m.buffers[made.id] = replace(m.buffers[made.id], kind=m.buffers[view.id].kind, residence=device.by)
    write = Access(made.id, Mode.WRITE, doubts=frozenset({Doubt.DEVICE}))
    by = Lib.TORCH.product
    m.emit(
        Launch(
            m.site(span),
            m.lane,
            frozenset({Doubt.INFERRED}),
            stream=stream.id,
            accesses=(reading(view), write),
            name="to device",
            library=by,
        )
    )
    return made


def is_of_another(m: Machine, stream: StreamId, device: DeviceV) -> bool:
    """Whether a stream was made for a device that is named apart from another: ``Link(src, dst)``.

    With ``Stream(src)`` current, ``x.to(dst)`` is a copy between devices, and ``dst`` waits for it by itself.
    """
    return _are_apart(m, m.made_for.get(symbol_of(StreamV(stream))), device.symbol)


def _are_apart(m: Machine, one: Symbol | None, other: Symbol | None) -> bool:
    """Whether they are two parameters of a call, or two attributes of an object: who has two means two."""
    match one, other:
        case symbols.Param(call, name), symbols.Param(other_call, other_name):
            return call == other_call and name != other_name
        case symbols.Attr(of, name), symbols.Attr(other_of, other_name):
            return name != other_name and _itself(m, of) is _itself(m, other_of)
        case _:
            return False


def _itself(m: Machine, owner: Symbol) -> Symbol:
    """An object, by one name: its constructor and the methods that are called behind that have two."""
    match owner:
        case symbols.Thing(number=int() as number) if number in m.heap:
            return m.heap[number].symbol or owner
        case _:
            return owner
