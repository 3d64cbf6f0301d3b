"""Objects that are made once for the same parts: equal ones are one object, as long as somebody has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from weakref import ref

_T = TypeVar("_T")


class Once(type):
    """The kind of such objects, which are completed (``_complete``) when they are made."""

    if not TYPE_CHECKING:

        def __call__(cls, *parts: object) -> object:
            what = (cls, *parts)
            known = _MADE.get(what)
            made = known() if known is not None else None
            if made is None:
                made = type.__call__(cls, *parts)
                made._complete(parts)
                _MADE[what] = ref(made)
                if len(_MADE) > Once.most:
                    forget()
            return made

    most: int
    """Entries of ``_MADE`` at which those without an object are dropped."""


_MADE: dict[tuple[object, ...], ref[Any]] = {}
"""By kind and parts. An entry keeps the objects among its parts, which were made before it."""
_ROOM = 20_000


def forget() -> None:
    """Drops the entries of objects that nobody has any more, a whole before its parts.

    A function that is called for each object when it goes takes as long as making it does.
    """
    left = list(_MADE)
    while left:
        what = left.pop()  # not held by the list: the entry keeps the parts
        if _MADE[what]() is None:
            del _MADE[what]
    Once.most = 2 * len(_MADE) + _ROOM


Once.most = _ROOM


def made_before(kind: type[_T], *parts: object) -> _T | None:
    """The object of these parts if there is one: of what nobody has asked about none was made."""
    known = _MADE.get((kind, *parts))
    return known() if known is not None else None
