import cupy as cp
from nvidia.dali import fn, pipeline_def, types


class NoiseSource:
    """Callback that synthesises batches on the device for a pipeline."""

    def __init__(self, batch_size, shape, steps):
        self.batch_size, self.shape, self.steps = batch_size, shape, steps
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.step = 0

    def __call__(self):
        if self.step >= self.steps:
            raise StopIteration
        self.step += 1
        with self.stream:
            base = cp.arange(self.batch_size * self.shape[0] * self.shape[1], dtype=cp.float32)
            batch = cp.sin(base * self.step).reshape((self.batch_size,) + self.shape)
            batch += cp.float32(1.0)
        return batch


@pipeline_def(num_threads=2, device_id=0)
def synth_pipe(source):
    x = fn.external_source(source=source, device="gpu", dtype=types.FLOAT, ndim=2,
                           cuda_stream=source.stream)
    return fn.normalize(x, axes=[0, 1])


def main():
    source = NoiseSource(8, (64, 64), steps=12)
    pipe = synth_pipe(source, batch_size=8)
    pipe.build()
    total = 0.0
    while True:
        try:
            (out,) = pipe.run()
        except StopIteration:
            break
        host = out.as_cpu().as_array()
        total += float(host.std())
    print(total / source.step)


if __name__ == "__main__":
    main()
