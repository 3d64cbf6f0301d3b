"""Kernels with a configuration, ``kernel[blocks, threads, stream](x)``: what is one, what Numba copies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from streamlint import models
from streamlint.interp.facts import decorators
from streamlint.interp.library import mapped, tensors
from streamlint.interp.state import names
from streamlint.interp.state.values import (
    NONE,
    ApiV,
    BufferV,
    Flavor,
    FuncV,
    PartialV,
    StreamV,
    SymV,
    TupleV,
    Value,
)
from streamlint.models.schema import Lib
from streamlint.trace import Space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamlint.interp.state.machine import Machine

LAUNCH = "a configured kernel"
"""Path of the value ``kernel[grid, block, stream]``, which holds the kernel and its configuration."""


def of(m: Machine, kernel: Value, at: Value) -> Value | None:
    """``kernel[grid, block, stream]``: None if ``kernel`` is not one of Numba's or CuPy's."""
    at = names.settle(m, at)
    match kernel:
        case FuncV() if decorators.kernel_of(m.project, kernel.function) in (Lib.NUMBA, Lib.CUPY, Lib.TORCH):
            return PartialV(ApiV(LAUNCH), (kernel, at), {})
        case PartialV(func=ApiV("numba.cuda.jit()"), args=(inner, *_)):
            return PartialV(ApiV(LAUNCH), (inner, at), {})
        case SymV() if isinstance(at, TupleV) and any(_is_numba_stream(m, item) for item in at.items):
            return PartialV(ApiV(LAUNCH), (kernel, at), {})
        case ApiV(path) if isinstance(at, TupleV) and _may_be_kernel(m, path):
            return PartialV(ApiV(LAUNCH), (kernel, at), {})
        case _:
            return None


def _may_be_kernel(m: Machine, path: str) -> bool:
    """Whether a name of another package may be a kernel of Numba's: ``filters.blur[blocks, threads]``."""
    root = path.partition(".")[0]
    known = root in sys.stdlib_module_names or root == "numpy" or models.find_function(path) is not None
    return not known and m.project.imports(m.frame.env.module, Lib.NUMBA.value)


def is_launch(m: Machine, kernel: Value, args: Sequence[Value]) -> bool:
    """Whether what is configured and called is a kernel; a name of another package is, with Numba's arrays.

    ``filters.blur[blocks, threads](image)``
    """
    given = tensors.buffers_in(m, args, unknown=False) if isinstance(kernel, ApiV) else []
    return not isinstance(kernel, ApiV) or any(
        view.flavor is Flavor.NUMBA_ARRAY or view.id in m.life.mapped for view in given
    )


def _is_numba_stream(m: Machine, value: Value) -> bool:
    value = names.settle(m, value)
    return isinstance(value, StreamV) and value.lib is Lib.NUMBA


def copies_there_and_back(m: Machine, view: BufferV, lib: Lib, stream: Value) -> bool:
    """Whether Numba copies an array of the host to the device and back, and waits for that.

    Pinned memory that is not mapped it copies too; on a stream that the launch names, it goes on at once.
    """
    space = m.space(view)
    copied = space is Space.PINNED and not mapped.works_in_place(m, view.id, lib.product)
    return space is Space.PAGEABLE or (lib is Lib.NUMBA and copied and stream == NONE)
