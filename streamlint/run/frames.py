"""Room for the frames of running Python functions.

CPython 3.11 and newer keep frames in chunks of 16 KiB, and map or unmap one whenever a call or a return
crosses the end of a chunk (``push_chunk`` in ``Python/pystate.c``). An interpreter that recurses does so
all the time: that was 7 % of a run over vLLM, and 23 % of one over Warp. A frame that does not fit
into a chunk gets a larger one, and the frames of its callees go into what is left of that.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_SLOTS = 1 << 16
"""Half a megabyte for one frame, which never touches it, in a chunk of one megabyte."""


def _call(function: Callable[[], T]) -> T:
    return function()


_large = FunctionType(_call.__code__.replace(co_stacksize=_SLOTS), globals())


def with_room(function: Callable[[], T]) -> T:
    """Calls a function that recurses deeply."""
    return cast("T", _large(function))
