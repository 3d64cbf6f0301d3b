"""Hooks of PyTorch run where it calls them: around the call of a module, and in the backward pass.

They run under the stream that is current there. A module is what a hook is registered for; a function
that nothing calls runs as an entry of its own (``interp/entries/closures.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.facts import counting as counting_calls
from streamlint.interp.facts import relevance
from streamlint.interp.library import autograd, escape, optimizers, storage, tensors
from streamlint.interp.state import symbols
from streamlint.interp.state.values import (
    NONE,
    BufferV,
    ConstV,
    FuncV,
    HeapV,
    PartialV,
    Shape,
    SymV,
    TupleV,
    Value,
    reading,
    symbol_of,
)
from streamlint.models.autograd import BACKWARD
from streamlint.models.schema import Lib
from streamlint.models.torch import (
    BEHIND_BACKWARD,
    FORWARD_HOOKS,
    GRADIENT_HOOKS,
    MODULE_HOOKS,
    MODULE_RUNS_NOTHING,
    OPTIMIZER_STEP,
)
from streamlint.trace import Access, Alloc, BufferId, Copy, Doubt, Evidence, Free, HostAccess, Launch, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.source import Span

BEFORE = "register_forward_pre_hook"
AFTER = "register_forward_hook"
GRADIENT = "register_hook"
ACCUMULATED = "register_post_accumulate_grad_hook"
BEHIND = "AccumulateGrad.register_hook"
BEFORE_STEP = "register_step_pre_hook"
AFTER_STEP = "register_step_post_hook"
AT_END = "queue_callback"
OF_OPTIMIZERS = frozenset({BEFORE_STEP, AFTER_STEP})
REGISTERS = MODULE_HOOKS | GRADIENT_HOOKS | OF_OPTIMIZERS

_OF_TENSORS = GRADIENT_HOOKS | {BEHIND}
_BEHIND_ACCUMULATION = frozenset({ACCUMULATED, BEHIND})

_ENGINE = SymV(symbols.Name("the engine of autograd"))


def register(m: Machine, owner: Value, name: str, args: list[Value], span: Span) -> Value | None:
    """``net.register_forward_hook(tap)``; None for a hook that is not followed."""
    match args:
        case [FuncV() | PartialV() as hook, *_]:
            # What a hook of a parameter gets is the parameter, of which it takes the gradient.
            known = _with_tensor(hook, owner) if name == ACCUMULATED else hook
            key = _meant(m, owner)
            if name in _OF_TENSORS:
                _is_called_by_autograd(m, hook)
            m.hooks.setdefault((name, key), []).append(known)
            m.hooked[key], m.hooked_at[key] = owner, span
            handle = m.result(name, span)
            m.handles[handle.symbol] = (name, key), known
            return handle
        case _:
            return None


def remove(m: Machine, handle: SymV) -> Value | None:
    """``handle.remove()``; None for what is no handle of a hook."""
    if handle.symbol not in m.handles:
        return None
    place, hook = m.handles[handle.symbol]
    if hook in m.hooks.get(place, ()):
        m.hooks[place] = [one for one in m.hooks[place] if one is not hook]
    return NONE


def _is_called_by_autograd(m: Machine, hook: FuncV | PartialV) -> None:
    """Keeps a function inside of another one that leads to a stream: nothing else may run it.

    ``def hook(*_): self._reduce(p)``, which ``p.register_hook(hook)`` gets.
    """
    match _called(hook):
        case FuncV(function=ir.Function() as inner) as made if relevance.leads(m.project, inner):
            m.closures.setdefault(f"{inner.module}:{inner.qualname}", made)
        case _:
            pass


def register_behind(m: Machine, node: Symbol, args: list[Value], span: Span) -> Value | None:
    """A hook behind the accumulation of a gradient; None for other nodes of a graph.

    ``node = p.expand_as(p).grad_fn.next_functions[0][0]``, and ``node.register_hook(hook)``: such a hook
    runs when ``p.grad`` was written, and gets gradients of which nothing is known.
    """
    match node:
        case symbols.Item(symbols.Item(symbols.Attr(symbols.Attr(of, "grad_fn"), "next_functions"), _), _):
            tensor = _memory_of(m, of)
        case _:
            return None
    return register(m, BufferV(tensor.id), BEHIND, args, span) if tensor is not None else None


def _with_tensor(hook: FuncV | PartialV, tensor: Value) -> PartialV:
    if isinstance(hook, PartialV):
        return PartialV(hook.func, (*hook.args, tensor), hook.kwargs)
    return PartialV(hook, (tensor,), {})


def _meant(m: Machine, owner: Value) -> Symbol:
    return m.symbol_of_object(owner) if isinstance(owner, HeapV) else symbol_of(owner)


def at_end(m: Machine, args: list[Value], span: Span) -> Value:
    """``Variable._execution_engine.queue_callback(finish)``: at the end of the backward pass that runs."""
    return register(m, _ENGINE, AT_END, args, span) or NONE


def of_optimizer(
    m: Machine, optimizer: SymV, name: str, args: list[Value], call: Callable[[], Value], span: Span
) -> Value:
    """``optimizer.zero_grad()``, and ``optimizer.step()`` with the hooks that were registered for it."""
    if name != OPTIMIZER_STEP:
        optimizers.clears(m, optimizer)
        return call()
    given: list[Value] = [optimizer, TupleV(tuple(args)), m.new_object(Shape.DICT)]
    for hook in m.hooks.get((BEFORE_STEP, optimizer.symbol), ()):
        m.python.call(m, hook, given, {}, span)
    optimizers.step(m, optimizer, span)
    result = call()
    for hook in m.hooks.get((AFTER_STEP, optimizer.symbol), ()):
        m.python.call(m, hook, given, {}, span)
    return result


def before_call(m: Machine, module: Value, args: list[Value], span: Span) -> None:
    if (BEHIND_BACKWARD, _meant(m, module)) in m.hooks:
        m.awaiting_backward[_meant(m, module)] = None
    for hook in m.hooks.get((BEFORE, _meant(m, module)), ()):
        m.python.call(m, hook, [module, TupleV(tuple(args))], {}, span)


def of_parts(m: Machine, module: Value, args: list[Value], span: Span) -> None:
    """A module that is not seen runs the hooks of the modules in it, which may order what they lead to.

    ``for layer in layers: layer.register_forward_pre_hook(lambda *_: self.fetched())``, and ``model(x)``.
    """
    own = symbol_of(module)
    if isinstance(own, symbols.Attr) and own.name in MODULE_RUNS_NOTHING:
        # layer.to("cuda"), layer.register_forward_hook(tap): a method of one.
        return
    m.awaiting_backward.update(
        (owner, None)
        for name, owner in m.hooks
        if name == BEHIND_BACKWARD and owner is not own and _may_be_in(m, owner, module)
    )
    others = [
        hook
        for (name, owner), found in m.hooks.items()
        if name in FORWARD_HOOKS and owner is not own and _may_be_in(m, owner, module)
        for hook in found
    ]
    if others and args:
        escape.through(m, others, span, "hooks")


def _may_be_in(m: Machine, part: Symbol, module: Value) -> bool:
    """Whether a module may have another one in it.

    In ``blocks = [nn.TransformerEncoderLayer(64, 4) for _ in range(8)]`` none has: what PyTorch makes holds
    what it has made itself, and what it was given (``nn.TransformerEncoder(layer, 6)``).
    """
    if not isinstance(module, SymV) or not m.makers.get(module.symbol, "").startswith("torch.nn."):
        return True
    if not all(isinstance(held, (SymV, ConstV)) for held in module.holds):
        return True
    given = [symbol_of(held) for held in module.holds]
    return any(part is whole or symbols.is_under(part, whole) for whole in (module.symbol, *given))


def after_call(m: Machine, module: Value, args: list[Value], result: Value, span: Span) -> Value:
    """A hook may put something else in place of what the module gives."""
    for hook in m.hooks.get((AFTER, _meant(m, module)), ()):
        given = m.python.call(m, hook, [module, TupleV(tuple(args)), result], {}, span)
        result = result if given == NONE else given
    return result


def that_get_results(m: Machine, module: Value) -> Iterator[FuncV]:
    """The functions that are hooks behind the forward pass of a module."""
    for hook in m.hooks.get((AFTER, _meant(m, module)), ()):
        own = _called(hook)
        if isinstance(own, FuncV):
            yield own


def by_autograd(m: Machine, func: FuncV, number: int) -> tuple[list[Value], dict[str, Value]] | None:
    """What a hook of tensors gets in a backward pass that is not seen, which has computed the gradient.

    That was queued on the stream which is current in the hook. Each call of a pass is about another tensor;
    ``number`` is that of the call from outside. None for other functions.
    """
    found = _of_gradients(m, func)
    if not found:
        return None
    turn = max(number - m.backward_from, 0)
    name, tensor, hook = found[min(turn, len(found) - 1)]
    if turn >= len(found):
        beyond = _further(m, tensor, turn - len(found) + 1)
        if beyond is None:
            _next_backward(m, number)
            name, tensor, hook = found[0]
        else:
            tensor = beyond
    if turn and number != m.backward_from and _has_come_to_the_last(m, func):
        escape.barrier(m, escape.all_streams(m), func.function.span, "the last hook", Doubt.SOME_PATHS)
    autograd.computes(m, func.function.span)
    # functools.partial(self.on_gradient, index): what it was made with comes first.
    given, named = (hook.args, hook.kwargs) if isinstance(hook, PartialV) else ((), {})
    if name == GRADIENT:
        return [*given, _gradient(m, symbol_of(tensor))], dict(named)
    if name == BEHIND:
        return [*given, *_of_a_node()], dict(named)
    return [*given[:-1], tensor], dict(named)


def begins_anew(m: Machine, func: FuncV, number: int) -> bool:
    """Whether the call behind those that show all is one of another backward pass: of hooks of tensors."""
    if not _of_gradients(m, func):
        return False
    _next_backward(m, number)
    return True


def _next_backward(m: Machine, number: int) -> None:
    """With this call from outside another backward pass begins; before it a caller may call what orders.

    All tensors had their turn, or their calls repeat themselves. What calls it is not seen: it stands where
    the last hook was registered.
    """
    m.backward_from = number
    if m.orders_between:
        span = next(reversed(m.hooked_at.values()))
        escape.barrier(m, escape.all_streams(m), span, "the next backward pass", Doubt.SOME_PATHS)


def _of_gradients(m: Machine, func: FuncV) -> list[tuple[str, Value, FuncV | PartialV]]:
    """The tensors that a function is a hook of, in the order in which it was registered for them."""
    found = [
        (name, m.hooked[owner], hook)
        for (name, owner), hooks in m.hooks.items()
        for hook in hooks
        if name in _OF_TENSORS and _is_of(hook, func)
    ]
    # What is made for each tensor is called for its own, and a function that was made once for all.
    own = [one for one in found if _called(one[2]) == func]
    return own or found


def _called(hook: FuncV | PartialV) -> Value:
    return hook.func if isinstance(hook, PartialV) else hook


def _is_of(hook: FuncV | PartialV, func: FuncV) -> bool:
    own = _called(hook)
    return isinstance(own, FuncV) and own.function is func.function


def _further(m: Machine, tensor: Value, count: int) -> Value | None:
    """A tensor behind the last one that a loop of unknown length has registered a hook for."""
    for place, role in m.roles.items():
        match place:
            case symbols.Item(of, at) if role == tensor and (last := symbols.number(at)) is not None:
                beyond = symbols.Item(of, symbols.constant(last + count))
                return tensors.as_buffer(m, SymV(beyond), kind=Evidence.INFERRED)
            case _:
                pass
    return None


def of_others(m: Machine, span: Span) -> None:
    """A backward pass that is not seen has used the tensors that hooks are registered for, and runs these."""
    stream, by = m.current_stream(Lib.TORCH).id, Lib.TORCH.product
    for owner in [owner for name, owner in m.hooks if name in _OF_TENSORS]:
        if (used := _memory_of(m, owner)) is not None:
            at = m.site(m.hooked_at[owner])
            read = (reading(used),)
            m.emit(Launch(at, m.lane, stream=stream, accesses=read, name="forward pass", library=by))
    autograd.computes(m, span)
    in_backward(m, span)


def _memory_of(m: Machine, tensor: Symbol) -> BufferV | None:
    """What a tensor holds by now, if the path has come by it."""
    match tensor:
        case symbols.Memory(number, region):
            view = BufferV(BufferId(number), region)
            return m.life.moved.get(view.id, view)
        case _:
            known = m.roles.get(tensor)
            return known if isinstance(known, BufferV) else None


def _gradient(m: Machine, owner: Symbol) -> BufferV:
    return storage.gradient(m, symbols.call("gradient of", owner), f"gradient of {symbols.text_of(owner)}")


def _of_a_node() -> list[Value]:
    """What a hook of a node of the graph gets: gradients of what came in, and of what went out."""
    return [SymV(symbols.Name("gradients of the inputs")), SymV(symbols.Name("gradients of the outputs"))]


def _that_counts(m: Machine, hook: FuncV | PartialV) -> Span | None:
    """Where a hook of several tensors stands that does something once for all: no other one comes after that.

    ``bucket.waiting.discard(p)``, and ``if not bucket.waiting:`` it sends the bucket, into which the next
    hook of this path would write.
    """
    own = _called(hook)
    if isinstance(own, FuncV) and counting_calls.tells_the_last(m.project, own.function):
        return own.function.span
    return None


def _has_come_to_the_last(m: Machine, hook: FuncV) -> bool:
    """Whether a hook that some other code lets count again may have come to its last tensor in this pass."""
    counts = _that_counts(m, hook) is not None
    return counts and not counting_calls.counts_anew(m.project, hook.function)


def _may_not_come(m: Machine, first: int) -> None:
    """A hook that has issued what stands behind ``first`` comes after one that may have been the last.

    What comes behind the backward pass was issued in any case.
    """
    for number in range(first, len(m.ops)):
        op = m.ops[number]
        if isinstance(op, (Launch, Copy, HostAccess, Alloc, Free)):
            m.ops[number] = replace(op, doubts=op.doubts | {Doubt.SOME_PATHS})


def _accumulates(m: Machine, owner: Symbol, span: Span) -> None:
    """A pass adds to the gradient that an earlier one has left: ``for loss in losses: loss.backward()``.

    It does so in place, on the stream of the pass. That who calls passes which are not seen leaves gradients
    between them, nobody knows.
    """
    gradient = _left(m, owner)
    if gradient is not None and gradient.id in m.accumulated:
        tensors.launch(m, span, [Access(gradient.id, Mode.UPDATE)], BACKWARD)


def _left(m: Machine, owner: Symbol) -> BufferV | None:
    """The gradient of a tensor, where code has come by it."""
    tensor = _memory_of(m, owner)
    left = storage.put_on(m, tensor, "grad") if tensor is not None else None
    return left if isinstance(left, BufferV) and left.id in m.life.gradients else None


def in_backward(m: Machine, span: Span, *, keeps_graph: bool = False, is_seen: bool = False) -> Value:
    """After the gradients are queued: hooks of tensors get those, on the stream of the backward pass.

    What a hook queues for the end comes last.
    """
    autograd.asks_for_saved(m, span)
    results = autograd.in_backward(m, span, keeps_graph=keeps_graph)
    counting: set[Span] = set()
    for (name, owner), found in list(m.hooks.items()):
        if is_seen and found and name in _BEHIND_ACCUMULATION:
            _accumulates(m, owner, span)
        due = name == BEHIND_BACKWARD and owner in m.awaiting_backward
        for hook in found if due else ():
            results.append(m.python.call(m, hook, [m.hooked[owner], *_of_a_node()], {}, span))
        for hook in found if name in _OF_TENSORS else ():
            gradient: list[Value] = [_gradient(m, owner)] if name == GRADIENT else []
            gradient += _of_a_node() if name == BEHIND else []
            first, counts = len(m.ops), _that_counts(m, hook)
            results.append(m.python.call(m, hook, gradient, {}, span))
            if counts in counting:
                _may_not_come(m, first)
            elif counts is not None and len(m.ops) > first:
                # One that has only counted was not the last.
                counting.add(counts)
        if is_seen and name in _BEHIND_ACCUMULATION and (left := _left(m, owner)) is not None:
            m.accumulated.add(left.id)
    m.awaiting_backward.clear()
    autograd.go_on(m, results, span)
    for hook in m.hooks.pop((AT_END, _ENGINE.symbol), ()):
        m.python.call(m, hook, [], {}, span)
    return NONE
