"""Functions of the program that a function of another package gets, and what it gives is called for.

``self.compute = compile_if_needed(self._compute, mode)``, and then ``self.compute(x)``: as with a decorator
of another package, which is written ``@compile_if_needed``, the function itself is taken to run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.python import functions
from streamlint.interp.state import symbols
from streamlint.interp.state.values import BufferV, EventV, FuncV, GraphV, StreamV, SymV, Value, symbol_of
from streamlint.models import jax
from streamlint.models import triton as triton_model

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from streamlint.interp.state.machine import Machine


def note(m: Machine, made: Value, path: str, args: Sequence[Value]) -> None:
    """Notes which function of the program the function ``path`` of another package got first.

    One that gets a stream as well, an event or a graph, or a second function, may choose where it runs.
    """
    match args:
        case [FuncV() as own, *others] if _may_wrap(path) and functions.runs_on_host(m, own):
            if not any(isinstance(other, (FuncV, StreamV, EventV, GraphV)) for other in others):
                m.wrapped[symbol_of(made)] = own
        case _:
            pass


def function_of(
    m: Machine, called: SymV | BufferV, args: Sequence[Value], named: Collection[str]
) -> FuncV | None:
    """The function that runs where a value is called with these arguments, and with those of these names."""
    own = m.wrapped.get(symbol_of(called))
    if own is None or not _takes(own, len(args), named):
        return None
    m.oracle.choose(
        symbols.call("runs", symbol_of(called)), f"{own.function.name} is called by what wraps it", options=1
    )
    return own


def _may_wrap(path: str) -> bool:
    """Whether nothing is known of the package. A class gives an object; what compilers get runs elsewhere."""
    package, last = path.partition(".")[0], path.rpartition(".")[2]
    known = package in models.ROOTS or package in sys.stdlib_module_names or path in jax.COMPILES
    return not known and last not in triton_model.MAKES_KERNELS and not last[:1].isupper()


def _takes(func: FuncV, positional: int, named: Collection[str]) -> bool:
    """Whether a function can be called so: what calls it otherwise adds arguments of its own."""
    function, _ = functions.loaded(func, outside=False)
    kinds = {param.kind for param in function.params}
    bound = [param for param in function.params if param.kind == "positional"][func.receiver is not None :]
    known = {param.name for param in function.params if "*" not in param.kind}
    needed = {param.name for param in bound[positional:] if param.default is None}
    fits = positional <= len(bound) or "*" in kinds
    return fits and needed <= set(named) and ("**" in kinds or set(named) <= known)
