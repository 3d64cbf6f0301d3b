import cupy as cp

from bridge import cupy_op

_collatz = cp.ElementwiseKernel(
    "int64 x",
    "int32 y",
    """
    long long v = x;
    int c = 0;
    while (v > 1 && c < 1000) { v = (v & 1) ? 3 * v + 1 : v >> 1; ++c; }
    y = c;
    """,
    "collatz_len",
)


@cupy_op
def collatz(x):
    return _collatz(x)


@cupy_op
def rank_filter(x, width=5):
    pad = cp.pad(x, (width // 2, width // 2), mode="edge")
    win = cp.lib.stride_tricks.as_strided(
        pad, (x.size, width), (pad.strides[0], pad.strides[0])
    )
    return cp.sort(win, axis=1)[:, width // 2].copy()
