"""The memory of a tensor apart from the tensor: ``x.untyped_storage().resize_(0)`` gives it back."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from streamlint.frozen import replace
from streamlint.interp.library import forms
from streamlint.interp.state import giving_up, lifetime, names, outside, symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    Flavor,
    SymV,
    TupleV,
    Value,
    symbol_of,
)
from streamlint.models.schema import Lib
from streamlint.models.torch import VIEWED
from streamlint.trace import NOTHING, WHOLE, Access, Evidence, Launch, Mode, Origin, Space, Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

_STORAGE = (Symbol(".storage"),)
_Key = TypeVar("_Key")


def of(m: Machine, view: BufferV) -> BufferV:
    """All of the memory in which a tensor is: of an element of a list, the part that stands for that one."""
    parts = m.life.parts.get(view.id, ())
    ends = range(len(view.region), 0, -1)
    own = next((view.region[:end] for end in ends if view.region[:end] in parts), WHOLE)
    return BufferV(view.id, own + _STORAGE, view.flavor)


def is_storage(view: BufferV) -> bool:
    return view.region[-1:] == _STORAGE


def resized(m: Machine, view: BufferV, size: Value, span: Span) -> BufferV:
    """``resize_(0)`` gives the memory back; with another size all that is in it is allocated anew.

    What the tensor and its views stand for is the new memory then, however often it was given back before: it
    is the tensor that moves, and not the storage that stands for it.
    """
    if size == ConstV(0):
        m.forms.emptied.add(view.id)
        giving_up.drop(m, replace(view, region=view.region[:-1]), span, "resize_(0)")
        return view
    whole = BufferV(view.id, (), view.flavor)
    made = _anew(m, whole, span)
    # The page and all that stand for it: what was allocated anew before, in each step, too.
    m.life.moved[view.id] = made
    return made


def base(m: Machine, view: BufferV) -> Value:
    """``x._base``: what a tensor is a view of; None for one that owns its memory, unknown of others."""
    made_here = view.flavor is Flavor.TORCH and m.buffers[view.id].origin is not Origin.ARGUMENT
    if made_here and not view.region and view.id not in m.life.viewed:
        return NONE
    return SymV(place_of(view, VIEWED))


def size(m: Machine, view: BufferV) -> Value:
    """``x.untyped_storage().size()``: zero once it was given back, and not while a path has put memory there.

    ``if storage.size() > 0: storage.resize_(0)``, later ``if storage.size() != n: storage.resize_(n)``.
    """
    is_empty = view.id in m.forms.emptied
    made = SymV(symbols.Attr(symbol_of(view), "size when empty" if is_empty else "size"))
    if is_empty:
        m.forms.zero.add(made.symbol)
    elif m.buffers[view.id].origin is not Origin.ARGUMENT:
        m.forms.positive.add(made.symbol)
    return made


def grown(m: Machine, view: BufferV, sizes: list[Value], span: Span) -> BufferV:
    """``scratch.resize_(n)``: what does not fit is allocated anew, and copied on the current stream.

    The old memory goes back. Where the sizes are not known, ``n`` is taken to be the larger one.
    """
    before, after = m.life.elements.get(view.id), elements(sizes)
    if before is not None and after is not None and after <= before:
        return view
    made = _anew(m, view, span)
    if after is not None:
        m.life.elements[made.id] = after
    forms.sized(m, made, sizes)
    if before is None or after is None:
        m.life.grown.add(view.id)
    doubts = lifetime.doubts_of_growth(m, view.id)
    accesses = (Access(view.id, Mode.READ), Access(made.id, Mode.WRITE))
    stream = m.current_stream(Lib.TORCH, m.buffers[view.id].device).id
    by = Lib.TORCH.product
    m.emit(Launch(m.site(span), m.lane, doubts, stream=stream, accesses=accesses, name="resize_", library=by))
    return made


def for_result(m: Machine, view: BufferV, span: Span) -> BufferV:
    """``torch.add(a, b, out=torch.empty(0, device="cuda"))``: memory for the result is allocated."""
    return _anew(m, view, span) if view.region == NOTHING and can_grow(m, view) else view


def taken_over(m: Machine, view: BufferV, source: BufferV) -> BufferV:
    """``alias = x.new_empty(0).set_(x.untyped_storage())``: one of the other's memory from now on.

    Its own it gives up: ``hidden.set_(torch.empty(0, device="cuda"))``.
    """
    made = BufferV(source.id, (), view.flavor)
    giving_up.assign_data(m, view, made)
    return made


def place_of(view: BufferV, name: str) -> symbols.Attr:
    """What stands for an attribute of a tensor object: each element of a result has its own.

    ``for name, p in layer.named_parameters(): p.data = pages[name]``
    """
    return symbols.Attr(symbol_of(view) if view.region else symbols.Thing("buffer", view.id), name)


def put_on(m: Machine, view: BufferV, name: str) -> Value | None:
    """What code has put there, also before a use has shown that it is a tensor.

    ``p.main_grad = torch.zeros(p.shape)`` for each parameter, then ``p.detach()``, and ``p.main_grad`` again.
    """
    stored = m.roles.get(place_of(view, name))
    if stored is not None:
        return stored
    # p.data = p.full, and then p.full again: p is the tensor that it was.
    owners = chain(m.attributed.get(name, ()), m.life.given_to)
    before = (m.roles.get(symbols.Attr(owner, name)) for owner in owners if _is(m, owner, view))
    return next((value for value in before if value is not None), None)


def _is(m: Machine, owner: symbols.Symbol, view: BufferV) -> bool:
    role = m.roles.get(owner)
    return role is not None and names.settle(m, role) == view


def elements(sizes: list[Value]) -> int | None:
    """How many elements ``torch.empty(2, 3)`` or ``x.resize_((2, 3))`` has; None if that is not known.

    ``torch.empty(rows, 0, columns)`` has none.
    """
    given = sizes[0].items if len(sizes) == 1 and isinstance(sizes[0], TupleV) else sizes
    known = [size.value for size in given if isinstance(size, ConstV) and isinstance(size.value, int)]
    if 0 in known:
        return 0
    return math.prod(known) if given and len(known) == len(given) else None


def can_grow(m: Machine, view: BufferV) -> bool:
    """Whether a tensor is all of its memory, which was allocated on the path."""
    made_here = m.buffers[view.id].origin is not Origin.ARGUMENT and not m.space(view).on_host
    return view.region in (WHOLE, NOTHING) and made_here and not m.captures.active


def _anew(m: Machine, view: BufferV, span: Span) -> BufferV:
    old = m.buffers[view.id]
    stream = m.current_stream(Lib.TORCH, old.device)
    made = m.new_buffer(old.name, Space.DEVICE, Origin.RESULT, view.flavor, span, stream.id, old.device)
    lifetime.move(m, view, made)
    return made


def computes_gradients(m: Machine) -> None:
    """``loss.backward()``, the last op: where there was no gradient (``w.grad = None``) there is one now."""
    m.last_backward = len(m.ops) - 1
    m.captures.has_backward(m.current_stream(Lib.TORCH).id, m.last_backward)
    for place in [key for key, role in m.roles.items() if role == NONE and symbols.last_name(key) == "grad"]:
        del m.roles[place]


def gradient(
    m: Machine,
    symbol: symbols.Symbol,
    name: str = "",
    owner: BufferV | None = None,
    *,
    written_by: int | None = None,
) -> BufferV:
    """``p.grad``: written by the last ``backward()``, on the stream that was current there.

    It is memory of PyTorch's as surely as its owner is, and lives where that does: in a module that
    does not import PyTorch, a model with ``backward()`` and gradients may compute with NumPy. ``written_by``:
    an earlier pass, where it is known that this one has computed it.
    """
    last = m.last_backward if written_by is None else written_by
    kind = Evidence.INFERRED if m.project.imports(m.frame.env.module, "torch") else Evidence.ASSUMED
    residence = Evidence.ASSUMED
    if owner is not None:
        of = m.buffers[owner.id]
        kind, residence = of.kind, of.residence if of.space is Space.DEVICE else Evidence.ASSUMED
    backward = m.ops[last] if last is not None else None
    if last is None or not isinstance(backward, Launch):
        view = outside.memory(m, symbol, Space.DEVICE, kind=min(kind, Evidence.INFERRED), name=name)
        return m.lives(view, Space.DEVICE, residence)
    made = m.new_buffer(name or symbols.text_of(symbol), Space.DEVICE, Origin.RESULT, Flavor.TORCH, None)
    m.buffers[made.id] = replace(m.buffers[made.id], kind=kind, residence=residence)
    m.life.gradients.add(made.id)
    written = Access(made.id, Mode.WRITE)
    captured = m.captures.with_backward(last)
    if captured is None:
        _also_does(m, last, backward, written)
        return made
    # Launches of the graph write it.
    captured.modes[made.id, written.region, written.doubts] = written.mode
    for graph, recording in m.recordings.items():
        if last in recording.backwards:
            recording.modes[made.id, written.region, written.doubts] = written.mode
            for number, op in enumerate(m.ops):
                if isinstance(op, Launch) and op.graph == graph:
                    _also_does(m, number, op, written)
    return made


def held_gradient(m: Machine, place: symbols.Attr) -> BufferV | None:
    """The gradient at a place that is about to get another one, if somebody holds it already.

    ``grads = [p.grad for p in params]``, then ``p.grad = None``: what is in ``grads`` stays what it was.
    """
    if place.name != "grad":
        return None
    return _kept_by_holders(m, place, lambda: gradient(m, place))


def keep_data(m: Machine, tensor: symbols.Symbol) -> None:
    """What unseen code's tensor had stays with who holds it: ``old = p.data``, then ``p.data = page``."""
    place = symbols.Attr(tensor, "data")
    view = m.roles.get(place)
    if isinstance(view, BufferV):
        _kept_by_holders(m, place, lambda: view)


def _kept_by_holders(m: Machine, place: symbols.Attr, memory: Callable[[], BufferV]) -> BufferV | None:
    held = [frame.env.names for frame in m.frames] + [thing.attrs for thing in m.heap.values()]
    entries = [thing.entries for thing in m.heap.values()]
    lists = [thing.items for thing in m.heap.values()]
    values = chain(*(map(dict.values, held)), *(map(dict.values, entries)), *lists)
    if not any(_names(value, place) for value in values):
        return None
    view = memory()
    for attributes in held:
        _put(attributes, place, view)
    for table in entries:
        _put(table, place, view)
    for items in lists:
        items[:] = [_instead(item, place, view) for item in items]
    return view


def _put(held: dict[_Key, Value], place: symbols.Attr, view: BufferV) -> None:
    for key, value in held.items():
        held[key] = _instead(value, place, view)


def _names(value: Value, place: symbols.Attr) -> bool:
    match value:
        case SymV(symbol):
            return symbol is place
        case TupleV(items):
            return any(_names(item, place) for item in items)
        case _:
            return False


def _instead(value: Value, place: symbols.Attr, view: BufferV) -> Value:
    match value:
        case SymV(symbol) if symbol is place:
            return view
        case TupleV(items):
            return TupleV(tuple(_instead(item, place, view) for item in items))
        case _:
            return value


def _also_does(m: Machine, number: int, op: Launch, access: Access) -> None:
    m.ops[number] = replace(op, accesses=(*op.accesses, access))
