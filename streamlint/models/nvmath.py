"""nvmath: functions on arrays of other libraries, in order of the stream that they are given.

Without one it is the current stream of the library of the operands. Calls return before the work is done
where the operands are on a device (https://docs.nvidia.com/cuda/nvmath-python/latest/host-apis/linalg/generated/nvmath.linalg.MatmulOptions.html).
"""

from __future__ import annotations

from streamlint.models.schema import Framework, Lib

NVMATH = Framework(
    lib=Lib.NVMATH,
    url="https://docs.nvidia.com/cuda/nvmath-python/latest/",
    modules=("nvmath",),
    functions=(),
    operations=("nvmath.fft", "nvmath.linalg", "nvmath.tensor"),
)
