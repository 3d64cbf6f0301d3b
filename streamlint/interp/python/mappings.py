"""Methods of a mapping of which nothing is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.interp.python import containers
from streamlint.interp.state.values import ConstV, SymV, Value

if TYPE_CHECKING:
    from streamlint.interp.state.machine import Machine
    from streamlint.source import Span


def method(
    m: Machine, receiver: SymV, name: str, args: list[Value], kwargs: dict[str, Value], span: Span
) -> Value | None:
    """A mapping has one value for a key: ``streams.get(device)``, and later ``streams[device]``."""
    match name, args:
        case "get", [at, *rest] if len(rest) < 2 and not kwargs and not isinstance(at, ConstV):
            return containers.index(m, receiver, at, span)
        case "keys", [] if not kwargs:
            return receiver
        case "values", [] if not kwargs:
            return _values(m, receiver)
        case "items", [] if not kwargs:
            return containers.lazy(m, "zip", [receiver, _values(m, receiver)])
        case _:
            return None


def _values(m: Machine, table: SymV) -> Value:
    return containers.lazy(m, "values", [table])
