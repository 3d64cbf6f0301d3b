"""nvmath: functions on arrays of other libraries, in order of the stream that they are given.

Without one it is the current stream of the library of the operands. Calls return before the work is done
where the operands are on a device (https://docs.nvidia.com/cuda/nvmath-python/latest/host-apis/linalg/generated/nvmath.linalg.MatmulOptions.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlint.models.schema import Api, Computes, Framework, Lib, Makes, OrdersNothing

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATEFUL = {
    "fft.FFT": "operand",
    "linalg.Matmul": "a",
    "linalg.advanced.Matmul": "a",
    "sparse.advanced.DirectSolver": "b",
}
"""Objects, with an operand, that are planned once and executed many times, on the stream of each call
(https://docs.nvidia.com/cuda/nvmath-python/latest/stateful_apis_guide.html)."""


def _stateful(name: str, first: str) -> Iterator[Api]:
    made = f"{name}()"
    yield Api(name, f"{first} stream", (Makes(f"nvmath.{made}", (first,)),))
    # What a plan reads are its operands, which another call may have replaced (``reset_operand``).
    yield Api(f"{made}.execute", "out stream", (Computes((), "out", "stream", like=first),))
    for call in ("plan", "autotune", "reset_operand", "reset_operands", "free"):
        yield Api(f"{made}.{call}", "stream", (OrdersNothing(),))


NVMATH = Framework(
    lib=Lib.NVMATH,
    url="https://docs.nvidia.com/cuda/nvmath-python/latest/",
    modules=("nvmath",),
    functions=tuple(row for name, first in _STATEFUL.items() for row in _stateful(name, first)),
    operations=("nvmath.fft", "nvmath.linalg", "nvmath.sparse", "nvmath.tensor"),
)
