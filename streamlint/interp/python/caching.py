"""Functions that remember what they returned: ``@functools.cache``, ``@lru_cache``, ``@cached_property``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.frozen import replace
from streamlint.interp.facts import decorators
from streamlint.interp.python import keys
from streamlint.interp.state import naming, symbols
from streamlint.interp.state.values import FuncV, StreamV, Value, symbol_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine


def remembered(
    m: Machine, func: FuncV, args: list[Value], kwargs: dict[str, Value], run: Callable[[], Value]
) -> Value:
    """The result of the call, the same each time for the same arguments if the function is cached.

    ``@lru_cache`` above ``def comm_stream(): return torch.cuda.Stream()`` makes one stream, not one a call.
    """
    if not decorators.is_cached(func.function):
        return run()
    given = [symbol_of(value) for value in (func.receiver, *args) if value is not None]
    named = [symbols.call(name, symbol_of(kwargs[name])) for name in sorted(kwargs)]
    function = symbols.Local(func.function.module, func.function.qualname)
    place = symbols.Call(function, (*given, *named))
    if place not in m.remembered:
        made = m.remembered[place] = run()
        naming.rename(m, made, f"{func.function.name}()")
        if isinstance(made, StreamV) and place.args:
            _note_choice(m, place)
    return m.remembered[place]


def _note_choice(m: Machine, place: symbols.Call) -> None:
    """``lane(a)`` and ``lane(b)`` may be one stream, unless the arguments are known to differ."""
    for other, value in m.remembered.items():
        if not (isinstance(value, StreamV) and isinstance(other, symbols.Call) and other.func == place.func):
            continue
        apart = keys.are_two(m, symbols.Tuple(other.args), symbols.Tuple(place.args))
        known = m.streams[value.id]
        chosen = known.chosen or (other is not place and not apart)
        m.streams[value.id] = replace(known, among=symbols.text_of(place.func), chosen=chosen)
