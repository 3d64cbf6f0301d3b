"""Functions of autograd: PyTorch calls ``forward``, and ``backward`` when the gradients are computed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import classes
from streamlint.interp.library import saved_hooks, storage, tensors
from streamlint.interp.state import lifetime, symbols
from streamlint.interp.state.put_off import Applied
from streamlint.interp.state.values import Flavor, FuncV, SymV, TupleV, Value, reading
from streamlint.models.autograd import BACKWARD, FORWARD, SETS_UP
from streamlint.models.schema import Lib
from streamlint.trace import Access, Doubt, Evidence, Launch, Mode, Origin, Space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.put_off import Saved
    from streamlint.source import Span

SAVES = "save_for_backward"
_SAVED = "saved_tensors"
_UNSEEN = frozenset({Doubt.OPAQUE})


def applied(
    m: Machine, cls: ir.ClassDecl, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """``Copy.apply(x)`` runs ``Copy.forward``; None for a class that has none."""
    forward = classes.lookup(m, cls, FORWARD)
    if not isinstance(forward, FuncV):
        return None
    context = m.fresh("ctx", span)
    sets_up = classes.lookup(m, cls, SETS_UP)
    with _without_gradients(m):
        if isinstance(sets_up, FuncV):
            result = m.python.call(m, forward, args, kwargs, span)
            told = [TupleV((*args, *kwargs.values())), result]
            m.python.call(m, FuncV(sets_up.function, sets_up.closure, context), told, {}, span)
        else:
            result = m.python.call(m, FuncV(forward.function, forward.closure, context), args, kwargs, span)
    backward = classes.lookup(m, cls, BACKWARD)
    if isinstance(backward, FuncV):
        m.applied.append(Applied(backward, context, m.current_stream(Lib.TORCH)))
    return result


@contextmanager
def _without_gradients(m: Machine, *, unless: bool = False) -> Iterator[None]:
    """In ``forward`` and ``backward`` autograd keeps nothing but what the function saves itself."""
    outer = m.frame.gradless
    m.frame.gradless = outer or not unless
    try:
        yield
        lifetime.catch_up(m)
    finally:
        m.frame.gradless = outer


def saved(m: Machine, context: SymV, args: list[Value]) -> bool:
    """``ctx.save_for_backward(x, weight)``; true of one that was applied: its backward shows the rest."""
    m.roles[symbols.Attr(context.symbol, _SAVED)] = TupleV(tuple(args))
    return any(frame.receiver == context for frame in m.frames)


def in_backward(m: Machine, span: Span, *, keeps_graph: bool = False) -> list[Value]:
    """Runs what was applied, the last function first; gives what they give.

    A function that was applied on another stream runs on that one: its backward is not followed. What one has
    saved PyTorch lets go of as soon as its backward has returned, unless the graph is kept.
    """
    stream = m.current_stream(Lib.TORCH)
    results: list[Value] = []
    while m.applied:
        function = m.applied.pop()
        if function.stream == stream:
            backward = FuncV(function.backward.function, function.backward.closure, function.context)
            with _without_gradients(m, unless=keeps_graph):
                results.append(m.python.call(m, backward, _gradients(m, function), {}, span))
        if not keeps_graph:
            m.roles.pop(symbols.Attr(function.context.symbol, _SAVED), None)
            with lifetime.holding(m, TupleV(tuple(results))):
                lifetime.after_statement(m, span)
    return results


def backward_of_others(m: Machine, span: Span) -> None:
    """A backward pass that is not seen computes gradients and comes to what was applied.

    Who uses what that gives, and on which stream, the other functions of the graph say.
    """
    computes(m, span)
    in_backward(m, span)


def computes(m: Machine, span: Span) -> None:
    """A backward pass that is not seen queues what computes gradients, on the stream that is current."""
    stream, by = m.current_stream(Lib.TORCH).id, Lib.TORCH.product
    op = Launch(m.site(span), m.lane, stream=stream, accesses=(), name=BACKWARD, library=by)
    m.last_backward = m.emit(op)


def saved_by_others(m: Machine, func: FuncV) -> tuple[list[Value], dict[str, Value]] | None:
    """What a hook of saved tensors gets of an operator that is not seen; None for other functions.

    The operator has read it on the stream that is current in the hook, behind the one that made it. Nobody
    else holds it then: ``host.copy_(x, non_blocking=True)`` aside, ``return key``, and its memory is free.
    """
    if func.receiver is None or func.function.name not in m.packs:
        return None
    code = ir.code_of(func.function)
    if code is None or len(code.params) != _OF_HOOK:
        return None
    stream, name = m.current_stream(Lib.TORCH).id, code.params[-1].name
    span = func.function.span
    saved = m.new_buffer(name, Space.DEVICE, Origin.RESULT, Flavor.TORCH, span, stream)
    m.buffers[saved.id] = replace(m.buffers[saved.id], kind=Evidence.INFERRED, residence=Evidence.INFERRED)
    tensors.launch(m, span, [Access(saved.id, Mode.UPDATE)], "operator")
    return [saved], {}


_OF_HOOK = 2
"""Parameters of a method that is a hook of saved tensors: its object, and the tensor."""


def asks_for_saved(m: Machine, span: Span) -> None:
    """Operators get what hooks of saved tensors give back, one operator after the other, and let it go."""
    waiting = saved_hooks.in_turn(m)
    while waiting:
        of_one = waiting.pop(0)
        kept = [value for each in waiting for one in each for value in (one.unpack, one.packed)]
        with lifetime.holding(m, TupleV(tuple(kept))):
            _asks(m, of_one, span)


def _asks(m: Machine, of_one: list[Saved], span: Span) -> None:
    """One operator gets what hooks of saved tensors give back, and lets it go."""
    at, results = span, []
    for saved in of_one:
        m.last_return = None
        results.append(m.python.call(m, saved.unpack, [saved.packed], {}, span))
        at = _returned_at(m) or at
    views = tensors.buffers_in(m, results, unknown=False)
    used = tuple(reading(view) for view in views if not m.space(view).on_host)
    if used:
        tensors.launch(m, at, used, BACKWARD)
    lifetime.after_statement(m, at)


def _returned_at(m: Machine) -> Span | None:
    """Asked anew: a call has run code in between."""
    return m.last_return


def go_on(m: Machine, results: list[Value], span: Span) -> None:
    """The rest of the pass uses the gradients that functions and hooks gave."""
    used = tuple(reading(view) for view in tensors.buffers_in(m, results, unknown=False))
    if used:
        by = Lib.TORCH.product
        stream = m.current_stream(Lib.TORCH).id
        at = m.site(span)
        m.emit(Launch(at, m.lane, _UNSEEN, stream=stream, accesses=used, name=BACKWARD, library=by))


def _gradients(m: Machine, function: Applied) -> list[Value]:
    """One for each result; what ``*gradients`` takes is one."""
    code = ir.code_of(function.backward.function)
    if code is None:
        return []
    given = [
        param for param in code.params[1:] if param.kind in ("positional", "*") and param.default is None
    ]
    owner = symbols.Attr(function.context.symbol, "gradients")
    return [storage.gradient(m, symbols.Attr(owner, param.name), param.name) for param in given]
