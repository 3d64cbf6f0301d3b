"""Synthetic radar frames made with CuPy, augmented by a DALI pipeline and consumed by CuPy again."""
import cupy as cp
import numpy as np
from nvidia.dali import fn, pipeline_def, types


@pipeline_def
def augment_pipeline(stream_ptr):
    frames = fn.external_source(name="frames", device="gpu", layout="HWC", cuda_stream=stream_ptr)
    angle = fn.random.uniform(range=(-8.0, 8.0))
    frames = fn.rotate(frames, angle=angle, fill_value=0, keep_size=True)
    return fn.gaussian_blur(frames, sigma=1.1, dtype=types.FLOAT)


class FrameGenerator:
    """Draws moving targets into one device frame stack that is updated in place."""

    def __init__(self, batch, size, stream):
        self.stream = stream
        self.batch, self.size = batch, size
        self.rng = np.random.default_rng(12)
        with stream:
            self.axis = cp.arange(size, dtype=cp.float32)
            self.stack = cp.zeros((batch, size, size, 1), dtype=cp.float32)

    def draw(self):
        centres = self.rng.uniform(0.2, 0.8, (self.batch, 2)).astype(np.float32) * self.size
        with self.stream:
            self.stack *= 0.6
            for k, (cy, cx) in enumerate(centres):
                dy = self.axis - float(cy)
                dx = self.axis - float(cx)
                spot = cp.exp(-(dy[:, None] ** 2 + dx[None, :] ** 2) / 50.0)
                self.stack[k, :, :, 0] += spot
        return self.stack


class Augmenter:
    def __init__(self, batch=8, size=512):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.generator = FrameGenerator(batch, size, self.stream)
        self.pipe = augment_pipeline(
            self.stream.ptr, batch_size=batch, num_threads=2, device_id=0, prefetch_queue_depth=1
        )
        self.pipe.build()
        with self.stream:
            self.batch = cp.empty((batch, size, size, 1), dtype=cp.float32)
            self.energy = cp.zeros(batch, dtype=cp.float32)

    def step(self):
        stack = self.generator.draw()
        self.pipe.feed_input("frames", stack, cuda_stream=self.stream.ptr)
        self.pipe.schedule_run()
        (out,) = self.pipe.share_outputs()
        tensor = cp.asarray(out.as_tensor())
        with self.stream:
            self.batch[...] = tensor
        self.stream.synchronize()
        del tensor
        self.pipe.release_outputs()
        with self.stream:
            self.energy += cp.square(self.batch).sum(axis=(1, 2, 3))

    def run(self, steps):
        for _ in range(steps):
            self.step()
        return self.energy.get(stream=self.stream)


if __name__ == "__main__":
    print(Augmenter().run(100))
