"""Whether code itself says that something goes to the host, and does not leave it to who configures it.

``x.to("cpu", non_blocking=True)``: who writes that has ``x`` on a device. What a variable holds may differ
between runs (``device = "cuda" if on_gpu else "cpu"``), but an argument that is written where the function is
called does not: ``to_device(outputs, "cpu")`` says the same of ``outputs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.values import Env
    from streamlint.source import Span


def by_call(m: Machine, call: ir.Call | None) -> bool:
    """Whether an argument of a call names the host, as it stands there or where this function was called."""
    return call is not None and any(_is_host(m.frame.env, argument.value) for argument in call.args)


def parameters(m: Machine, function: ir.Function, span: Span, *, bound: bool) -> frozenset[str]:
    """Parameters of a function for which the call that is being made names the host.

    ``bound``: the first one is the object, which the call does not list.
    """
    call = m.frame.calling
    if call is None or call.span != span:
        # Another function calls it: map(move, batches).
        return frozenset()
    places = [param.name for param in function.params if param.kind == "positional"][bound:]
    named: set[str] = set()
    for place, argument in enumerate(call.args):
        if argument.star:
            break
        if _is_host(m.frame.env, argument.value):
            name = argument.keyword or (places[place] if place < len(places) else "")
            named.add(name)
    return frozenset(named)


def _is_host(env: Env, e: ir.Expr) -> bool:
    match e:
        case ir.Const(value=str() as text):
            return text.startswith("cpu")
        case ir.Call(func=ir.Attr(name="device"), args=(ir.Arg(value=inner),)):
            return _is_host(env, inner)
        case ir.Name(id=name):
            return _is_passed(env, name)
        case _:
            return False


def _is_passed(env: Env, name: str) -> bool:
    """Whether a name is a parameter, of this function or of one around it, that was passed so."""
    scope: Env | None = env
    while scope is not None and name not in scope.names:
        scope = scope.parent
    return scope is not None and name in scope.to_host
