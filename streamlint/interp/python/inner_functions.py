"""Functions that are defined inside of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.interp.facts import touching
from streamlint.interp.state.kept import Kept
from streamlint.interp.state.values import Env, FuncV

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def defined(m: Machine, function: ir.Function) -> FuncV:
    """A function made inside of another one: what its defaults are is computed now, and held by it.

    ``def called(_data, memory=host): ...`` in a loop is a function for each memory.
    """
    env = m.frame.env
    defaults = {
        param.name: m.python.evaluate(m, param.default)
        for param in function.params
        if param.default is not None and not isinstance(param.default, ir.Const)
    }
    if not defaults:
        return FuncV(function, env)
    m.activations += 1
    return FuncV(function, Env(defaults, env.module, env, m.activations))


def note(m: Machine, made: FuncV) -> None:
    """Keeps a function that was just defined inside of another one, if it touches streams.

    Or if a class does that it uses, and that was defined beside it: ``return Replayed.apply(x)``.
    """
    function = made.function
    if len(m.frames) < 2 or not isinstance(function, ir.Function):
        return
    if _touches(m, function) or _uses_class(m, function):
        m.closures.setdefault(f"{function.module}:{function.qualname}", made)


def _uses_class(m: Machine, function: ir.Function) -> bool:
    here = [cls for cls, env in m.made_in.items() if env is m.frame.env]
    return any(
        touching.touches(m.project, decl) for cls in here for decl in cls.methods.values()
    ) and not touching.names_in(function).isdisjoint(cls.name for cls in here)


_TOUCHING: Kept[Span, bool] = Kept()


def _touches(m: Machine, function: ir.Function) -> bool:
    return m.project.once(
        _TOUCHING, function.span, lambda: _names_touch(m, function.module, touching.names_in(function))
    )


def _names_touch(m: Machine, name: str, names: frozenset[str]) -> bool:
    module = m.project.module(name)
    return module is not None and touching.names_touch(m.project, module, names)
