"""DALI external source that renders training patches with CuPy on the fly."""
import cupy as cp
import numpy as np
from nvidia.dali import fn, pipeline_def, types

BATCH, SIDE = 64, 256


class PatchSource:
    """Callable source of one batch of GPU patches per iteration."""

    def __init__(self, texture):
        self.texture = cp.asarray(texture, dtype=cp.float32)
        self.rng = np.random.default_rng(0)
        self.batch = cp.empty((BATCH, SIDE, SIDE, 1), cp.float32)

    def __call__(self):
        h, w = self.texture.shape
        for i in range(BATCH):
            y = int(self.rng.integers(0, h - SIDE))
            x = int(self.rng.integers(0, w - SIDE))
            self.batch[i, :, :, 0] = self.texture[y:y + SIDE, x:x + SIDE]
        cp.cuda.Stream.null.synchronize()
        return self.batch


@pipeline_def(batch_size=BATCH, num_threads=2, device_id=0, prefetch_queue_depth=3)
def patches(source):
    data = fn.external_source(source=source, device="gpu", batch=True, no_copy=True, layout="HWC")
    data = fn.rotate(data, angle=fn.random.uniform(range=(-20.0, 20.0)), fill_value=0.0)
    return fn.crop_mirror_normalize(data, dtype=types.FLOAT, crop=(224, 224), output_layout="CHW",
                                    mean=[0.5], std=[0.25])


def main(iterations=200):
    pipe = patches(PatchSource(np.load("texture.npy")))
    pipe.build()
    means = []
    for _ in range(iterations):
        (out,) = pipe.run()
        means.append(out.as_cpu().as_array().mean(axis=(1, 2, 3)))
    np.save("means.npy", np.stack(means))


if __name__ == "__main__":
    main()
