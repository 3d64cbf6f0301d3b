"""Copies of all that a path has done so far, to be continued on another machine."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from streamlint.interp.state.captures import Captures, Recording
from streamlint.interp.state.forms import Forms
from streamlint.interp.state.lives import Lifetimes
from streamlint.interp.state.numbers import Numbers
from streamlint.interp.state.path import Path
from streamlint.interp.state.stepped import Stepped
from streamlint.interp.state.stored import Stores
from streamlint.interp.state.values import HeapObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlint.interp.state.machine import Machine


def take(m: Machine) -> dict[str, object]:
    """A copy of a machine's state.

    Values are immutable and shared; variables of closures are shared too.
    """
    return {name: copied(value) for name, value in zip(_STATE, _VALUES(m), strict=True)}


def restore(m: Machine, state: dict[str, object]) -> None:
    """Continues as the machine did whose ``state`` this is; the op that opened the trace stays."""
    first = m.ops[0]
    for name, value in state.items():
        setattr(m, name, copied(value))
    m.ops[0] = first


_STATE = tuple(f.name for f in fields(Path))
_VALUES = attrgetter(*_STATE)


def copied(value: Any) -> Any:  # noqa: ANN401
    """A copy of a container or a mutable record, and of those in it; the rest is immutable.

    All elements of a container are of one kind.
    """
    copy = _COPIES.get(type(value))
    return value if copy is None else copy(value)


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    if value and type(next(iter(value.values()))) in _COPIES:
        return {key: copied(item) for key, item in value.items()}
    return value.copy()


def _list(value: list[Any]) -> list[Any]:
    return [copied(item) for item in value] if value and type(value[0]) in _COPIES else value.copy()


def _record(kind: type, copied: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Copies what has fields, and these."""
    parts = attrgetter(*(f.name for f in fields(kind)))
    return lambda value: kind(*[copied(part) for part in parts(value)])


_FILLED = frozenset({dict, list})
_COPIES: dict[type, Callable[[Any], Any]] = {
    dict: _dict,
    list: _list,
    set: set.copy,
    # Most of what a path has are these. What they hold is values, and nothing that can change.
    HeapObject: _record(HeapObject, lambda part: part.copy() if type(part) in _FILLED else part),
    Stepped: Stepped.copied,
    **{kind: _record(kind, copied) for kind in (Lifetimes, Captures, Recording, Forms, Numbers, Stores)},
}
