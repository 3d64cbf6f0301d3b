import cupy as cp

_lane = None

_blur = cp.ElementwiseKernel(
    "raw T x, int32 n, int32 r",
    "T y",
    """
    T acc = 0;
    int cnt = 0;
    for (int k = -r; k <= r; ++k) {
        int j = i + k;
        if (j >= 0 && j < n) { acc += x[j]; ++cnt; }
    }
    y = acc / cnt;
    """,
    "box_blur",
)


def _get_lane():
    global _lane
    if _lane is None:
        _lane = cp.cuda.Stream(null=False, non_blocking=False)
    return _lane


class Smoother:
    def __init__(self, radius, passes=2):
        self.radius = radius
        self.passes = passes

    def __call__(self, x):
        with _get_lane():
            for _ in range(self.passes):
                y = cp.empty_like(x)
                _blur(x, x.size, self.radius, y)
                x = y
        return x


def residual(x, s):
    base = s(x)
    return x - base, base
