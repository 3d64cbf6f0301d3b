"""Whose code made an object of which only the name of a method is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.state import symbols
from streamlint.interp.state.values import symbol_of
from streamlint.trace import Evidence

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.interp.state.symbols import Symbol
    from streamlint.interp.state.values import Value
    from streamlint.models.schema import Framework


def by_name(m: Machine, receiver: Value, framework: Framework) -> Evidence:
    """How the name of a method shows that the library's is called.

    ``def fetch(d): return d.copy_to_host(stream=s)`` is Numba's as far as anybody can see. What
    ``elsewhere.DeviceArray.empty(n)`` gave may have a method of that name which waits.
    """
    path = of_symbol(m, symbol_of(receiver))
    own = {module.partition(".")[0] for module in framework.modules}
    return Evidence.INFERRED if not path or path.partition(".")[0] in own else Evidence.ASSUMED


def of_symbol(m: Machine, symbol: Symbol) -> str:
    """The unseen function that gave a value, or the value of which it is a part: ``Pool().arrays[0]``."""
    return next((m.makers[one] for one in (symbol, *symbols.owners(symbol)) if one in m.makers), "")
