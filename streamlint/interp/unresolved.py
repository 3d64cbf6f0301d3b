"""Calls that cannot be followed: what they may read, produce, launch and order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp import (
    escape,
    lifetime,
    names,
    tensors,
)
from streamlint.interp.values import (
    NONE,
    ApiV,
    BufferV,
    CallbackV,
    ConstV,
    Flavor,
    StreamV,
    TupleV,
    Value,
)
from streamlint.models import host
from streamlint.models import torch as torch_model
from streamlint.models.cuda_runtime import SUCCESS_NAMES
from streamlint.trace import Access, Doubt, Launch, Mode

if TYPE_CHECKING:
    from streamlint.interp.machine import Machine
    from streamlint.source import Span


def opaque(
    m: Machine,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
    span: Span,
    holds: tuple[Value, ...] = (),
) -> Value:
    """A call that cannot be followed.

    It reads the tensors that it is given and produces its result on the current stream. Streams and
    events that it receives escape: it may order them. A call whose name says that it only keeps its
    arguments (``queue.put``, ``list.append``) reads nothing.
    """
    last = name.rpartition(".")[2]
    if any(word in last.lower() for word in torch_model.MEMORY_SIGNALS):
        escape.barrier(m, escape.all_streams(m), span, name, Doubt.SIGNAL)
    values = [names.settle(m, value) for value in (*args, *kwargs.values())]
    unwrapped = _status_check(values)
    if unwrapped is not None:
        return unwrapped
    if last in host.FILLS:
        for view in tensors.buffers_in(m, values, unknown=False):
            tensors.write_on_host(m, view, span, last)
        return m.fresh(f"{name}()", span)
    tensors_given = tensors.buffers_in(m, values)
    lifetime.escapes(m, tensors_given)
    lifetime.escapes(m, [value for value in values if isinstance(value, CallbackV) and not value.address])
    launched = _launched(values, tensors_given)
    if not launched:
        escape.through(m, [*values, *holds], span, name)
    if last in host.HANDOFF_METHODS or not tensors_given or _is_getter(m, last, values):
        return m.fresh(
            f"{name}()",
            span,
            tuple(value for value in (*values, *holds) if not isinstance(value, ConstV))[:6],
        )
    if launched:
        return _takes_pointers(m, name, values, launched, span)
    if all(m.space(view).on_host and view.flavor is Flavor.ARRAY for view in tensors_given):
        for view in tensors_given:
            tensors.read_on_host(m, view, span, last, opaque=True)
        return m.fresh(f"{name}()", span)
    if escape.carries_order(m, values):
        return m.fresh(f"{name}()", span, tuple(values[:6]))
    return tensors.opaque_work(m, last, tensors_given, span)


def _launched(values: list[Value], views: list[BufferV]) -> list[BufferV]:
    """The addresses that a launcher receives, if the call looks like one.

    Its memory is all addresses, or it gets exactly one stream and otherwise only addresses and
    values that nothing is known of: ``fill(pointer, count, stream)``.
    """
    pointers = [view for view in views if view.flavor is Flavor.POINTER]
    if len(pointers) == len(views):
        return pointers
    streams = sum(isinstance(value, StreamV) for value in values)
    others = all(view.flavor in (Flavor.POINTER, Flavor.OPAQUE) for view in views)
    return pointers if streams == 1 and others else []


def _is_getter(m: Machine, name: str, values: list[Value]) -> bool:
    """``get_buffer(rank, shape)``: fetches or makes something, and was given no memory that is known."""
    if not name.startswith(
        ("get_", "is_", "has_", "make_", "create_", "build_", "init_", "load_", "find_", "alloc")
    ):
        return False
    return all(view.flavor is Flavor.OPAQUE for view in tensors.buffers_in(m, values, unknown=False))


def _takes_pointers(m: Machine, name: str, values: list[Value], views: list[BufferV], span: Span) -> Value:
    """A launcher: addresses and one stream make device work on that stream; addresses alone are numbers."""
    streams = [value for value in values if isinstance(value, StreamV)]
    if len(streams) == 1:
        doubts = frozenset({Doubt.OPAQUE})
        accesses = tuple(Access(view.id, Mode.UPDATE, view.region, doubts) for view in views)
        m.emit(Launch(m.site(span), m.lane, doubts, stream=streams[0].id, accesses=accesses, name=name))
    else:
        escape.through(m, values, span, name)
    return m.fresh(f"{name}()", span, tuple(values[:6]))


def _status_check(values: list[Value]) -> Value | None:
    """``check(cudart.cudaMalloc(n))`` with a helper from outside gives the value without the error."""
    match values:
        case [TupleV((ApiV(path), *rest))] if path.endswith(SUCCESS_NAMES):
            return NONE if not rest else rest[0] if len(rest) == 1 else TupleV(tuple(rest))
        case _:
            return None
