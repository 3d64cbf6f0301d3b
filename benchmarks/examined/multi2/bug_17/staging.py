import cupyx
import numpy as np


class PinnedStage:
    """Page-locked place where a frame is put together before it is sent."""

    def __init__(self, shape, dtype=np.uint8):
        self.host = cupyx.empty_pinned(shape, dtype)
        self.shape = shape

    def fill(self, frame):
        h, w = frame.shape[:2]
        if (h, w) != self.shape[:2]:
            frame = self._letterbox(frame)
        np.copyto(self.host, frame)
        return self

    def _letterbox(self, frame):
        out = np.zeros(self.shape, self.host.dtype)
        h = min(self.shape[0], frame.shape[0])
        w = min(self.shape[1], frame.shape[1])
        out[:h, :w] = frame[:h, :w]
        return out

    @property
    def nbytes(self):
        return self.host.nbytes

    def fits(self, frame):
        return frame.shape == self.shape and frame.dtype == self.host.dtype

    def __repr__(self):
        return f"PinnedStage({'x'.join(map(str, self.shape))}, {self.host.dtype})"
