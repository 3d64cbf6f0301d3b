"""Hooks of PyTorch run where it calls them: around the call of a module, and in the backward pass.

They run under the stream that is current there. Of modules only layers of ``torch.nn`` are known; a function
that nothing calls runs as an entry of its own (``interp/entries/closures.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import storage
from streamlint.interp.state.values import NONE, FuncV, PartialV, Shape, SymV, TupleV, Value, key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

BEFORE = "register_forward_pre_hook"
AFTER = "register_forward_hook"
GRADIENT = "register_hook"
ACCUMULATED = "register_post_accumulate_grad_hook"
BEFORE_STEP = "register_step_pre_hook"
AFTER_STEP = "register_step_post_hook"
AT_END = "queue_callback"
OF_MODULES = frozenset({BEFORE, AFTER})
OF_TENSORS = frozenset({GRADIENT, ACCUMULATED})
OF_OPTIMIZERS = frozenset({BEFORE_STEP, AFTER_STEP})

_ENGINE = SymV("the engine of autograd")


def register(m: Machine, owner: Value, name: str, args: list[Value], span: Span) -> Value | None:
    """``net.register_forward_hook(tap)``; None for a hook that is not followed."""
    match args:
        case [FuncV() as hook, *_]:
            # What a hook of a parameter gets is the parameter, of which it takes the gradient.
            known = PartialV(hook, (owner,), {}) if name == ACCUMULATED else hook
            m.hooks.setdefault(f"{name} of {key_of(owner)}", []).append(known)
            return m.fresh(f"{name}()", span)
        case _:
            return None


def at_end(m: Machine, args: list[Value], span: Span) -> Value:
    """``Variable._execution_engine.queue_callback(finish)``: at the end of the backward pass that runs."""
    return register(m, _ENGINE, AT_END, args, span) or NONE


def around_step(
    m: Machine, optimizer: SymV, args: list[Value], step: Callable[[], Value], span: Span
) -> Value:
    """``optimizer.step()`` with the hooks that were registered for it."""
    given: list[Value] = [optimizer, TupleV(tuple(args)), m.new_object(Shape.DICT)]
    for hook in m.hooks.get(f"{BEFORE_STEP} of {optimizer.key}", ()):
        m.python.call(m, hook, given, {}, span)
    result = step()
    for hook in m.hooks.get(f"{AFTER_STEP} of {optimizer.key}", ()):
        m.python.call(m, hook, given, {}, span)
    return result


def before_call(m: Machine, module: SymV, args: list[Value], span: Span) -> None:
    for hook in m.hooks.get(f"{BEFORE} of {module.key}", ()):
        m.python.call(m, hook, [module, TupleV(tuple(args))], {}, span)


def after_call(m: Machine, module: SymV, args: list[Value], result: Value, span: Span) -> Value:
    """A hook may put something else in place of what the module gives."""
    for hook in m.hooks.get(f"{AFTER} of {module.key}", ()):
        given = m.python.call(m, hook, [module, TupleV(tuple(args)), result], {}, span)
        result = result if given == NONE else given
    return result


def in_backward(m: Machine, span: Span) -> Value:
    """After the gradients are queued: hooks of tensors get those, on the stream of the backward pass.

    What a hook queues for the end comes last.
    """
    for place, found in list(m.hooks.items()):
        name, _, owner = place.partition(" of ")
        for hook in found if name in OF_TENSORS else ():
            gradient: list[Value] = [storage.gradient(m, f"gradient of {owner}")] if name == GRADIENT else []
            m.python.call(m, hook, gradient, {}, span)
    for hook in m.hooks.pop(f"{AT_END} of {_ENGINE.key}", ()):
        m.python.call(m, hook, [], {}, span)
    return NONE
