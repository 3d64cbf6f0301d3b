"""Optimizers of ``torch.optim``: a step writes the parameters that they were made for, and their state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import classes
from streamlint.interp.library import storage, tensors
from streamlint.interp.state import names, symbols
from streamlint.interp.state.values import BufferV, ConstV, HeapV, Shape, SymV, TupleV, Value, symbol_of
from streamlint.models.autograd import BACKWARD
from streamlint.models.schema import Lib
from streamlint.trace import WHOLE, Access, Doubt, Evidence, HostAccess, Launch, Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from streamlint import ir
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

CLASSES = "torch.optim."
_GROUPS = "param_groups"
_UNSEEN = "torch.optim.Optimizer"
_UNSURE = frozenset({Doubt.INFERRED})
_UNTOLD = frozenset({Doubt.ASSUMED})


def made(m: Machine, path: str, args: list[Value], kwargs: dict[str, Value], span: Span) -> SymV:
    """``torch.optim.Adam(net.parameters())``"""
    parameters = args[0] if args else kwargs.get("params")
    value = m.result(path, span, () if parameters is None else (parameters,))
    m.makers[value.symbol] = path
    if parameters is not None:
        m.roles[symbols.Attr(value.symbol, _GROUPS)] = _groups_of(m, parameters)
    return value


def inherited(
    m: Machine, cls: ir.ClassDecl, receiver: Value, args: list[Value], kwargs: dict[str, Value]
) -> None:
    """``super().__init__(params, defaults)`` of a class derived from ``torch.optim.Optimizer``."""
    parameters = args[0] if args else kwargs.get("params")
    if parameters is None or not isinstance(receiver, HeapV):
        return
    if any(base.startswith(CLASSES) for base in classes.bases_outside(m.project, cls)):
        m.heap[receiver.id].attrs[_GROUPS] = _groups_of(m, parameters)


def _groups_of(m: Machine, parameters: Value) -> HeapV:
    """``optimizer.param_groups``: the groups that it was given, or one of all its parameters."""
    known = names.settle(m, parameters)
    items = m.heap[known.id].items if isinstance(known, HeapV) else []
    if items and all(isinstance(one, HeapV) and m.heap[one.id].shape is Shape.DICT for one in items):
        return m.new_list(items)
    group = m.new_object(Shape.DICT)
    held, name = m.heap[group.id], ConstV("params")
    held.entries[symbol_of(name)], held.keys[symbol_of(name)], held.open = parameters, name, True
    return m.new_list([group])


def clears(m: Machine, optimizer: SymV) -> None:
    """``optimizer.zero_grad()``: what then takes a step is an optimizer, wherever it comes from."""
    m.makers.setdefault(optimizer.symbol, _UNSEEN)


def stepped(m: Machine, receiver: SymV, args: list[Value]) -> SymV:
    """The optimizer that takes a step: it may be given to what lets it do so, ``scaler.step(optimizer)``."""
    match names.settle(m, args[0]) if args else receiver:
        case SymV(symbol) as given if m.makers.get(symbol, "").startswith(CLASSES):
            return given
        case _:
            return receiver


def step(m: Machine, optimizer: SymV, span: Span) -> None:
    """``optimizer.step()``: work on the current stream."""
    if not m.makers.get(optimizer.symbol, "").startswith(CLASSES):
        return
    _reads_gradients(m, optimizer, span)
    place = symbols.Attr(optimizer.symbol, "state")
    state = [role for symbol, role in m.roles.items() if place in symbols.owners(symbol)]
    # Of an iterable that is not known it is not known either what it gives.
    given = [value for value in optimizer.holds if isinstance(value, HeapV)]
    gradients = _gradients(m, given, Mode.READ, "optimizer step", span)
    views = dict.fromkeys([*_parameters(m, given), *(v for v in state if isinstance(v, BufferV))])
    accesses = [*gradients, *(Access(v.id, Mode.UPDATE, v.region) for v in views)]
    if accesses:
        tensors.launch(m, span, accesses, "optimizer step")


def scales(m: Machine, given: Value, name: str, span: Span) -> None:
    """``clip_grad_norm_(shards, 1.0)``: gradients that code has named, wherever they are."""
    accesses = _gradients(m, [given], Mode.UPDATE, name, span)
    if accesses:
        tensors.launch(m, span, accesses, name)


def _gradients(m: Machine, given: Iterable[Value], mode: Mode, name: str, span: Span) -> list[Access]:
    """What is done with gradients that code has named: ``dist.all_reduce(p.grad, async_op=True)``.

    Of those on the host it is done at once: ``shard.grad = page``, where ``page`` is pinned memory.
    """
    given = list(given)
    places = [place for one in _each(m, given) for place in _places_of_gradient(m, one)]
    places += [place for one in _made_alike(m, given) for place in _of_elements(m, one)]
    put = dict.fromkeys(names.settle(m, m.roles[place]) for place in places if place in m.roles)
    views = [view for view in put if isinstance(view, BufferV)]
    accesses = [(view, Access(view.id, mode, view.region)) for view in views]
    on_host = tuple(access for view, access in accesses if m.space(view).on_host)
    if on_host:
        m.emit(HostAccess(m.site(span), m.lane, accesses=on_host, name=name))
    return [access for view, access in accesses if not m.space(view).on_host]


def _places_of_gradient(m: Machine, parameter: Value) -> Iterator[symbols.Symbol]:
    """Where a gradient stands: under what a value is known as, and under the memory that it is."""
    yield symbols.Attr(symbol_of(parameter), "grad")
    match names.settle(m, parameter):
        case BufferV() as view:
            yield storage.place_of(view, "grad")
        case _:
            pass


def _made_alike(m: Machine, given: Iterable[Value]) -> Iterator[BufferV]:
    """What stands for the elements of lists of which it is not known how many they are."""
    for value in given:
        match names.settle(m, value):
            case HeapV(number) if isinstance(sample := m.heap[number].sample, BufferV):
                yield sample
            case _:
                pass


def _of_elements(m: Machine, sample: BufferV) -> Iterator[symbols.Symbol]:
    """Where loops have put their gradients: ``for shard, page in zip(shards, pages): shard.grad = page``.

    Or what stands for them itself: ``[layer.shard for layer in layers]``, and ``self.shard.grad`` of a layer.
    """
    yield storage.place_of(replace(sample, region=WHOLE), "grad")
    for place in m.roles:
        match place:
            case symbols.Attr(symbols.Memory(number=number), "grad") if number == sample.id:
                yield place
            case _:
                pass


def _reads_gradients(m: Machine, optimizer: SymV, span: Span) -> None:
    """What the last backward pass wrote, also where no parameter is in sight.

    That matters on another stream only: ``loss.backward()``, and then ``with torch.cuda.stream(side):
    optimizer.step()``.
    """
    number, doubts = _last_backward(m, optimizer)
    m.life.stepped[optimizer.symbol] = len(m.ops)
    backward = m.ops[number] if number is not None else None
    if not isinstance(backward, Launch) or backward.stream == m.current_stream(Lib.TORCH).id:
        return
    place = symbols.Attr(optimizer.symbol, "grad")
    gradients = storage.gradient(m, place, "the gradient", written_by=number)
    tensors.launch(m, span, [Access(gradients.id, Mode.READ, doubts=doubts)], "optimizer step")


def _last_backward(m: Machine, optimizer: SymV) -> tuple[int | None, frozenset[Doubt]]:
    """The last backward pass that has come by a layer with parameters of the optimizer.

    Of two halves of a model on two streams each has a pass of its own. Where no layer tells which one it is,
    and one of them was on the stream of the step, that the last has computed the gradients is an assumption.
    """
    last = m.last_backward
    since = m.life.stepped.get(optimizer.symbol, 0)
    passes = {
        number: op.stream
        for number, op in enumerate(m.ops[since:last], since)
        if isinstance(op, Launch) and op.name == BACKWARD
    }
    if last is None or not passes:
        return last, _UNSURE
    own = {owner for value in _each(m, optimizer.holds) for owner in symbols.owners(symbol_of(value))}
    layers = {number: _layers_behind(m, number) for number in (*passes, last)}
    if all(found.isdisjoint(own) for found in layers.values()):
        here = m.current_stream(Lib.TORCH).id
        return last, _UNTOLD if here in passes.values() else _UNSURE
    return max(number for number, found in layers.items() if not found or not found.isdisjoint(own)), _UNSURE


def _layers_behind(m: Machine, number: int) -> set[symbols.Symbol]:
    """The layers by which a backward pass comes, whose first operand is what it begins with."""
    backward = m.ops[number]
    assert isinstance(backward, Launch)
    reached = {access.buffer for access in backward.accesses[:1] if access.mode.reads}
    found: set[symbols.Symbol] = set()
    for place in range(number - 1, -1, -1):
        op = m.ops[place]
        if not isinstance(op, Launch) or op.name == BACKWARD:
            continue
        if any(access.mode.writes and access.buffer in reached for access in op.accesses):
            reached |= {access.buffer for access in op.accesses if access.mode.reads}
            if place in m.life.by_layers:
                found.add(m.life.by_layers[place])
    return found


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
                alike = [held.sample] if not held.items and isinstance(held.sample, BufferV) else []
                yield from _each(m, [*held.items, *alike, *([] if group is None else [group])])
            case _:
                yield value
