import cupy as cp

_luma = cp.ElementwiseKernel(
    "raw uint8 rgb", "float32 y",
    "y = 0.299f * rgb[3 * i] + 0.587f * rgb[3 * i + 1] + 0.114f * rgb[3 * i + 2]",
    "luma",
)


class MotionDetector:
    """Running background model; counts the pixels that moved."""

    def __init__(self, height, width, limit, rate=0.05, threshold=18.0):
        self.background = cp.zeros((height, width), cp.float32)
        self.y = cp.empty_like(self.background)
        self.counts = cp.zeros(limit, cp.int64)
        self.rate = rate
        self.threshold = threshold
        self.seen = 0

    def __call__(self, rgb):
        _luma(rgb, self.y)
        moved = cp.abs(self.y - self.background) > self.threshold
        self.counts[self.seen] = cp.count_nonzero(moved)
        self.background += self.rate * (self.y - self.background)
        self.seen += 1

    @property
    def room(self):
        return len(self.counts) - self.seen

    def settings(self):
        return {"rate": self.rate, "threshold": self.threshold}


def alarms(counts, pixels, share=0.002):
    """Frame numbers at which more than `share` of the picture moved."""
    return [k for k, n in enumerate(counts) if n > share * pixels]
