"""Feed CuPy-generated volumes into a DALI augmentation pipeline."""
import cupy as cp
import numpy as np
from nvidia.dali import fn, pipeline_def, types

SHAPE = (8, 96, 96, 96)


@pipeline_def(batch_size=SHAPE[0], num_threads=2, device_id=0, prefetch_queue_depth=1)
def augment():
    vol = fn.external_source(device="gpu", name="volumes", batch=True, no_copy=False)
    return fn.cast(fn.flip(vol, horizontal=fn.random.coin_flip()), dtype=types.FLOAT)


class VolumeFeeder:
    def __init__(self):
        self.pipe = augment()
        self.pipe.build()
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.volumes = cp.zeros(SHAPE, cp.float32)
            self.grid = cp.stack(cp.meshgrid(*[cp.linspace(-1, 1, 96, dtype=cp.float32)] * 3))

    def _synthesise(self, seed):
        rng = np.random.default_rng(seed)
        for i in range(SHAPE[0]):
            c = cp.asarray(rng.uniform(-0.5, 0.5, 3).astype(np.float32))
            r2 = ((self.grid - c[:, None, None, None]) ** 2).sum(axis=0)
            self.volumes[i] = cp.exp(-r2 / np.float32(rng.uniform(0.02, 0.1)))

    def batches(self, count):
        for seed in range(count):
            with self.stream:
                self._synthesise(seed)
            self.stream.synchronize()
            self.pipe.feed_input("volumes", self.volumes, cuda_stream=self.stream.ptr)
            (out,) = self.pipe.run()
            yield np.array(out.as_cpu().as_array())


def main():
    feeder = VolumeFeeder()
    print([float(batch.mean()) for batch in feeder.batches(50)])


if __name__ == "__main__":
    main()
