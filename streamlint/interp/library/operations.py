"""Functions of a library that all work alike: they read what they get, and make a result, on one stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import stream_values, tensors
from streamlint.interp.state import flavors, names
from streamlint.interp.state.values import NONE, BufferV, ConstV, StreamV, Value, reading
from streamlint.trace import Access, Mode, Origin, Purpose, Space, SyncDevice

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.models.schema import Framework, Lib
    from streamlint.source import Span

_STREAM = "stream"
_OUT = "out"


def run(
    m: Machine, framework: Framework, path: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value:
    """``plc.copying.gather(table, rows, policy, stream=lane)``, ``nvmath.fft.fft(x, stream=lane)``.

    A class keeps what it is given (``plc.Table(columns)``). What gets neither memory nor a stream
    does no work.
    """
    name = path.rpartition(".")[2]
    given = [*args, *(value for key, value in kwargs.items() if key != _STREAM)]
    operands = tensors.buffers_in(m, given, unknown=False)
    if name[:1].isupper():
        return operands[0] if len(operands) == 1 else m.result(path, span, tuple(operands))
    if not operands and _STREAM not in kwargs:
        return m.result(path, span, tuple(given))
    stream = kwargs.get(_STREAM, NONE)
    result: Value = kwargs.get(_OUT, NONE)
    if isinstance(result, BufferV):
        into(m, framework.lib, name, result, operands, stream, span)
    else:
        result = work(m, framework.lib, name, operands, stream, span)
    host_waits(m, framework, stream, name, span)
    return result


def host_waits(m: Machine, framework: Framework, stream: Value, name: str, span: Span) -> None:
    """``small = cv2.cuda.resize(image, size)``: without a stream it is done when the call returns."""
    if framework.waits_without_stream and names.settle(m, stream) == NONE:
        m.emit(SyncDevice(m.site(span), m.lane, device=m.device, name=name, purpose=Purpose.ASIDE))


def work(
    m: Machine,
    lib: Lib,
    name: str,
    operands: list[BufferV],
    stream: Value,
    span: Span,
    *,
    like: list[BufferV] | None = None,
) -> BufferV:
    """Reads the operands on a stream, and makes a result of their kind, or of that of ``like``."""
    kind = operands if like is None else like
    by = lib if lib in flavors.FLAVORS or not kind else flavors.library(m, kind[0])
    on = _stream(m, names.settle(m, stream), by, span)
    flavor = flavors.FLAVORS.get(lib, kind[0].flavor if kind else flavors.flavor_of(by, Space.DEVICE))
    made = m.new_buffer("", Space.DEVICE, Origin.RESULT, flavor, span, on.id)
    reads = [reading(view) for view in operands]
    choice = stream_values.stream_choice(m, stream, operands)
    accesses = (*reads, Access(made.id, Mode.WRITE))
    tensors.work(m, span, on.id, accesses, name, library=lib.product, choice=choice)
    return made


def into(
    m: Machine, lib: Lib, name: str, target: BufferV, operands: list[BufferV], stream: Value, span: Span
) -> None:
    """``cumath.sin(angles, out=sines, stream=lane)`` writes what it is given."""
    on = _stream(m, names.settle(m, stream), lib, span)
    reads = [reading(view) for view in operands if view != target]
    accesses = (*reads, Access(target.id, Mode.WRITE, target.region))
    choice = stream_values.stream_choice(m, stream, operands)
    tensors.work(m, span, on.id, accesses, name, library=lib.product, choice=choice)


def _stream(m: Machine, given: Value, by: Lib, span: Span) -> StreamV:
    match given:
        case StreamV():
            return given
        case ConstV(None):
            return m.current_stream(by)
        case _:
            return stream_values.as_stream(m, given, span, by)
