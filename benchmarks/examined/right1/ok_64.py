"""DALI pipeline fed with batches that CuPy makes on the GPU."""
import cupy as cp
import numpy as np
from nvidia.dali import fn, pipeline_def, types


class PatternSource:
    """Random sinusoid patterns, one batch for each call."""

    def __init__(self, batch, size, seed=24):
        self.batch = batch
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rng = np.random.default_rng(seed)
        with self.stream:
            y, x = cp.meshgrid(cp.arange(size), cp.arange(size), indexing="ij")
            self.x = x.astype(cp.float32) / size
            self.y = y.astype(cp.float32) / size

    def _pattern(self):
        fx, fy = self.rng.uniform(1, 20, 2)
        wave = cp.sin(fx * self.x + fy * self.y)
        return ((wave + 1) * 127).astype(cp.uint8)[:, :, None]

    def __call__(self):
        with self.stream:
            return [self._pattern() for _ in range(self.batch)]


@pipeline_def
def pattern_pipe(source):
    images = fn.external_source(
        source=source, device="gpu", layout="HWC", cuda_stream=source.stream)
    images = fn.rotate(images, angle=fn.random.uniform(range=(-30.0, 30.0)))
    images = fn.gaussian_blur(images, sigma=2.0)
    return fn.cast(images, dtype=types.FLOAT)


def main(batch=16, size=256, rounds=10):
    source = PatternSource(batch, size)
    pipe = pattern_pipe(source, batch_size=batch, num_threads=2, device_id=0)
    pipe.build()
    means = []
    for _ in range(rounds):
        (images,) = pipe.run()
        host = images.as_cpu()
        means.extend(float(np.mean(host.at(i))) for i in range(len(host)))
    source.stream.synchronize()
    return means


if __name__ == "__main__":
    print(main())
