"""Hooks of PyTorch run where it calls them: around the call of a module, and in the backward pass.

They run under the stream that is current there. Of modules only layers of ``torch.nn`` are known; a function
that nothing calls runs as an entry of its own (``interp/entries/closures.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.library import storage
from streamlint.interp.state.values import NONE, FuncV, SymV, TupleV, Value, key_of

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span

BEFORE = "register_forward_pre_hook"
AFTER = "register_forward_hook"
BACKWARD = "register_hook"
OF_MODULES = frozenset({BEFORE, AFTER})


def register(m: Machine, owner: Value, name: str, args: list[Value], span: Span) -> Value | None:
    """``net.register_forward_hook(tap)``; None for a hook that is not followed."""
    match args:
        case [FuncV() as hook, *_]:
            m.hooks.setdefault(f"{name} of {key_of(owner)}", []).append(hook)
            return m.fresh(f"{name}()", span)
        case _:
            return None


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
    """After the gradients are queued: hooks of tensors get those, on the stream of the backward pass."""
    for place, found in list(m.hooks.items()):
        name, _, owner = place.partition(" of ")
        for hook in found if name == BACKWARD else ():
            gradient = storage.gradient(m, f"gradient of {owner}")
            m.python.call(m, hook, [gradient], {}, span)
    return NONE
