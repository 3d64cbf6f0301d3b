"""Whether code itself says that something goes to the host, and does not leave it to who configures it.

``x.to("cpu", non_blocking=True)``: who writes that has ``x`` on a device. What a variable holds may differ
between runs (``device = "cuda" if on_gpu else "cpu"``), but an argument that is written where a function of
the tree is called does not: ``to_device(outputs, "cpu")`` says the same of ``outputs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint import ir
from streamlint.frozen import replace
from streamlint.interp.state import symbols
from streamlint.interp.state.values import BufferV, ConstV, DeviceV, Env, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def by_call(m: Machine, call: ir.Call | None, target: Value, moved: BufferV) -> bool:
    """Whether a call names the host for what it moves, there or where a function around it was called.

    What a caller passes may be on the host, and the helper do nothing: ``for batch in loader:
    to_device(batch, "cpu")``. Who writes ``non_blocking`` as well knows better.
    """
    if isinstance(target, (ConstV, DeviceV)) and target.passed and not _is_given(m, moved):
        return True
    return call is not None and any(_is_written(argument.value) for argument in call.args)


def _is_given(m: Machine, view: BufferV) -> bool:
    """Whether unseen code passes some memory, or what it passes gives it step by step."""
    symbol = m.given.get(view.id)
    if symbol is None:
        return False
    chain = (symbol, *symbols.owners(symbol))
    is_part = all(isinstance(one, (symbols.Attr, symbols.Item, symbols.Param)) for one in chain)
    return is_part or any(symbols.function_called(one) == "next" for one in chain)


def mark(m: Machine, env: Env, function: ir.Function, span: Span, *, bound: bool) -> None:
    """Notes which parameters name the host in the call that is being made.

    ``bound``: the first one is the object, which the call does not list.
    """
    call = m.frame.calling
    if call is None or call.span != span:
        # Another function calls it: map(move, batches).
        return
    places = [param.name for param in function.params if param.kind == "positional"][bound:]
    for place, argument in enumerate(call.args):
        if argument.star:
            return
        if _is_written(argument.value):
            name = argument.keyword or (places[place] if place < len(places) else "")
            value = env.names.get(name)
            if isinstance(value, (ConstV, DeviceV)):
                env.names[name] = replace(value, passed=True)


def _is_written(e: ir.Expr) -> bool:
    match e:
        case ir.Const(value=str() as text):
            return text.startswith("cpu")
        case ir.Call(func=ir.Attr(name="device"), args=(ir.Arg(value=inner),)):
            return _is_written(inner)
        case _:
            return False
