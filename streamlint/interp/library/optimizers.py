"""Optimizers of ``torch.optim``: a step writes the parameters that they were made for, and their state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import storage, tensors
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import NONE, BufferV, HeapV, SymV, TupleV, Value, symbol_of
from streamlint.models.schema import Lib
from streamlint.trace import Access, Doubt, Evidence, HostAccess, Launch, Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

CLASSES = "torch.optim."
_UNSEEN = "torch.optim.Optimizer"
_UNSURE = frozenset({Doubt.INFERRED})


def made(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> SymV:
    """``torch.optim.Adam(net.parameters())``"""
    given = args[:1] or [kwargs[name] for name in ("params",) if name in kwargs]
    value = m.result(path, span, tuple(given))
    m.makers[value.symbol] = path
    return value


def clears(m: Machine, optimizer: SymV) -> None:
    """``optimizer.zero_grad()``: what then takes a step is an optimizer, wherever it comes from."""
    m.makers.setdefault(optimizer.symbol, _UNSEEN)


def step(m: Machine, optimizer: SymV, span: Span) -> None:
    """``optimizer.step()``: work on the current stream."""
    if not m.makers.get(optimizer.symbol, "").startswith(CLASSES):
        return
    _reads_gradients(m, optimizer, span)
    place = symbols.Attr(optimizer.symbol, "state")
    state = [role for symbol, role in m.roles.items() if place in symbols.owners(symbol)]
    # Of an iterable that is not known it is not known either what it gives.
    given = [value for value in optimizer.holds if isinstance(value, HeapV)]
    _on_host(m, given, Mode.READ, "optimizer step", span)
    views = dict.fromkeys([*_parameters(m, given), *(v for v in state if isinstance(v, BufferV))])
    if views:
        tensors.launch(m, span, [Access(v.id, Mode.UPDATE, v.region) for v in views], "optimizer step")


def scales(m: Machine, given: Value, name: str, span: Span) -> None:
    """``clip_grad_norm_(shards, 1.0)``: gradients that code has put on the host are scaled by the host."""
    _on_host(m, [given], Mode.UPDATE, name, span)


def _on_host(m: Machine, given: Iterable[Value], mode: Mode, name: str, span: Span) -> None:
    """What is done with the gradients of parameters, as far as code has put them on the host.

    ``shard.grad = page``, where ``page`` is pinned memory: an optimizer of the host reads it at once.
    """
    put = (m.roles.get(_gradient_of(one), NONE) for one in _each(m, given))
    accesses = tuple(
        Access(view.id, mode, view.region)
        for view in (names.settle(m, value) for value in put)
        if isinstance(view, BufferV) and m.space(view).on_host
    )
    if accesses:
        m.emit(HostAccess(m.site(span), m.lane, accesses=accesses, name=name))


def _gradient_of(parameter: Value) -> symbols.Symbol:
    match parameter:
        case BufferV():
            return storage.place_of(parameter, "grad")
        case _:
            return symbols.Attr(symbol_of(parameter), "grad")


def _reads_gradients(m: Machine, optimizer: SymV, span: Span) -> None:
    """What the last backward pass wrote, also where no parameter is in sight.

    That matters on another stream only: ``loss.backward()``, and then ``with torch.cuda.stream(side):
    optimizer.step()``.
    """
    backward = m.ops[m.last_backward] if m.last_backward is not None else None
    if not isinstance(backward, Launch) or backward.stream == m.current_stream(Lib.TORCH).id:
        return
    gradients = storage.gradient(m, symbols.Attr(optimizer.symbol, "grad"), "the gradient")
    tensors.launch(m, span, [Access(gradients.id, Mode.READ, doubts=_UNSURE)], "optimizer step")


def _parameters(m: Machine, given: Iterable[Value]) -> Iterator[BufferV]:
    for value in _each(m, given):
        match names.settle(m, value):
            case BufferV() as view:
                yield view
            case SymV() as unknown:
                yield tensors.as_buffer(m, unknown, kind=Evidence.INFERRED)
            case _:
                pass


def _each(m: Machine, given: Iterable[Value]) -> Iterator[Value]:
    """Tensors, lists of them, pairs of a name and a tensor, and groups as dicts."""
    for value in given:
        match names.settle(m, value):
            case TupleV(items):
                yield from _each(m, items[-1:])
            case HeapV(number):
                held = m.heap[number]
                group = held.entries.get(symbols.constant("params"))
                yield from _each(m, [*held.items, *([] if group is None else [group])])
            case _:
                yield value
