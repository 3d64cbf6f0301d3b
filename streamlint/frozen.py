"""Values that nobody assigns to: most of what the analyzer makes, some of it by the million.

The constructor of a frozen dataclass sets each field by a call of ``object.__setattr__``, which takes four
times as long as plain assignments. What is frozen here is so for the type checker, and an ordinary dataclass
when it runs. There are hundreds of these classes: to make one takes less than half the time, since no methods
are compiled that hardly anybody calls. ``replace`` is taken from here too, and never from ``dataclasses``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    # A type checker looks at the names of the fields, and at what they get.
    from dataclasses import replace

    from typing_extensions import dataclass_transform
else:

    def replace(value: _T, /, **changes: object) -> _T:
        """The value with other fields, as ``dataclasses.replace`` gives it, which takes twice as long."""
        kind = type(value)
        known = _PARTS.get(kind)
        if known is None:
            names = tuple(each.name for each in fields(kind) if each.init)
            known = _PARTS[kind] = names, attrgetter(*names, "__class__")
        names, parts = known
        return kind(**{**dict(zip(names, parts(value), strict=False)), **changes})

    def dataclass_transform(**_: object) -> object:
        return lambda function: function


__all__ = ["Enumeration", "frozen", "replace"]

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(*, eq: bool = True, order: bool = False, kw_only: bool = False) -> Callable[[type[_T]], type[_T]]:
    """As ``dataclass(frozen=True, slots=True)``: nobody assigns to a field of such a value."""
    made = dataclass(slots=True, eq=eq, order=order, kw_only=kw_only, unsafe_hash=eq, repr=False)

    def decorate(kind: type[_T]) -> type[_T]:
        # Else it is the signature, and to find that out takes longer than to make the class.
        kind.__doc__ = kind.__doc__ or kind.__name__
        if "__repr__" not in vars(kind):
            kind.__repr__ = _shown  # type: ignore[method-assign]
        return made(kind)

    return decorate


class Enumeration(Enum):
    """Members are hashed as what they are; the hash of Python's own enumerations is Python code."""

    __hash__ = object.__hash__


_PARTS: dict[type, tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]] = {}
"""The fields of each class whose values were changed, and what gives those of a value."""


@recursive_repr()
def _shown(value: object) -> str:
    """As a dataclass shows itself."""
    shown = (f"{each.name}={getattr(value, each.name)!r}" for each in fields(value) if each.repr)  # type: ignore[arg-type]
    return f"{type(value).__qualname__}({', '.join(shown)})"
