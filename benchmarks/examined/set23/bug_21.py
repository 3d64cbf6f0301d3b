"""Running background model for the detector frames."""
import cupy as cp
import numpy as np

_absdiff = cp.ElementwiseKernel(
    "float32 frame, float32 bg, float32 thr",
    "uint8 mask",
    "mask = fabsf(frame - bg) > thr ? 1 : 0",
    "frame_absdiff",
)


def clone(src):
    """Return a C-contiguous copy of ``src``."""
    dst = cp.empty_like(src)
    cp.cuda.runtime.memcpy(
        dst.data.ptr,
        src.data.ptr,
        src.nbytes,
        cp.cuda.runtime.memcpyDeviceToDevice,
    )
    return dst


class BackgroundModel:
    def __init__(self, shape, alpha=0.05, threshold=12.0):
        self.alpha = np.float32(alpha)
        self.threshold = np.float32(threshold)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.mean = cp.zeros(shape, dtype=cp.float32)
        self.frames_seen = 0

    def update(self, frame_host):
        """Fold one frame into the model and return the foreground mask."""
        with self.stream:
            frame = cp.asarray(frame_host, dtype=cp.float32)
            previous = clone(self.mean)
            self.mean *= np.float32(1.0) - self.alpha
            self.mean += self.alpha * frame
            mask = _absdiff(frame, previous, self.threshold)
            self.frames_seen += 1
            return cp.asnumpy(mask)


def run(frames, shape=(1024, 1024)):
    model = BackgroundModel(shape)
    hits = []
    for frame in frames:
        mask = model.update(frame)
        hits.append(int(mask.sum()))
    return hits


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    print(run(rng.integers(0, 4095, (32, 1024, 1024)).astype(np.float32)))
