"""Copies of all that a path has done so far, to be continued on another machine."""

from __future__ import annotations

from dataclasses import fields, replace
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
    from streamlint.interp.state.machine import Machine


def take(m: Machine) -> dict[str, object]:
    """A copy of a machine's state.

    Values are immutable and shared; variables of closures are shared too.
    """
    return {name: _copied(getattr(m, name)) for name in _STATE}


def restore(m: Machine, state: dict[str, object]) -> None:
    """Continues as the machine did whose ``state`` this is; the op that opened the trace stays."""
    first = m.ops[0]
    for name, value in state.items():
        setattr(m, name, _copied(value))
    m.ops[0] = first


_STATE = tuple(f.name for f in fields(Path))


def _copied(value: object) -> object:
    """A copy of a container or a mutable record, and of those in it; the rest is immutable.

    All elements of a container are of one kind.
    """
    match value:
        case dict():
            if isinstance(next(iter(value.values()), None), _MUTABLE):
                return {key: _copied(item) for key, item in value.items()}
            return dict(value)
        case list():
            return (
                [_copied(item) for item in value]
                if isinstance(next(iter(value), None), _MUTABLE)
                else list(value)
            )
        case set():
            return set(value)
        case HeapObject():
            # Most of what a path has are these. What they hold is values, and nothing that can change.
            return HeapObject(*[part.copy() if type(part) in _FILLED else part for part in _PARTS(value)])
        case Stepped():
            return value.copied()
        case Lifetimes() | Captures() | Recording() | Forms() | Numbers() | Stores():
            changes: dict[str, Any] = {f.name: _copied(getattr(value, f.name)) for f in fields(value)}
            return replace(value, **changes)
        case _:
            return value


_PARTS = attrgetter(*(f.name for f in fields(HeapObject)))
_FILLED = frozenset({dict, list})
_MUTABLE = (dict, list, set, HeapObject, Lifetimes, Captures, Recording, Forms, Numbers, Stepped, Stores)
