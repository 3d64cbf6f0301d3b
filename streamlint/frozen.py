"""Values that are made by the million.

The constructor of a frozen dataclass sets each field by a call of ``object.__setattr__``, which takes four
times as long as plain assignments. What is frozen here is so for the type checker, and an ordinary dataclass
when it runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        return lambda function: function


_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(*, eq: bool = True, order: bool = False, kw_only: bool = False) -> Callable[[type[_T]], type[_T]]:
    """As ``dataclass(frozen=True, slots=True)``: nobody assigns to a field of such a value."""
    return dataclass(slots=True, eq=eq, order=order, kw_only=kw_only, unsafe_hash=eq)
