"""Hyperspectral cubes read by CuPy and augmented by a DALI pipeline."""
import cupy as cp
import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
import torch
from nvidia.dali import pipeline_def
from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

_decode = cp.ElementwiseKernel(
    "uint16 counts, float32 dark, float32 gain", "float32 out",
    "out = fmaxf(0.f, counts - dark) * gain", "decode_counts")


class CubeSource:
    """Batches of decoded cubes for external_source, made on a stream of its own."""

    def __init__(self, files, batch_size, shape, dark, gain):
        self.files = files
        self.batch_size = batch_size
        self.shape = shape
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.dark = cp.asarray(dark, dtype=cp.float32)
            self.gain = cp.asarray(gain, dtype=cp.float32)
            self.counts = cp.empty((batch_size,) + shape, dtype=cp.uint16)
            self.batch = cp.empty((batch_size,) + shape, dtype=cp.float32)
        self.position = 0

    def __iter__(self):
        self.position = 0
        return self

    def __next__(self):
        if self.position + self.batch_size > len(self.files):
            raise StopIteration
        names = self.files[self.position:self.position + self.batch_size]
        self.position += self.batch_size
        host = np.stack([np.fromfile(name, dtype=np.uint16).reshape(self.shape) for name in names])
        self.counts.set(host, stream=self.stream)
        with self.stream:
            _decode(self.counts, self.dark, self.gain, self.batch)
        self.stream.synchronize()
        return self.batch


@pipeline_def
def cube_pipeline(source, crop):
    cubes = fn.external_source(source=source, device="gpu", batch=True, no_copy=True,
                               dtype=types.FLOAT, layout="HWC")
    cubes = fn.crop(cubes, crop=crop,
                    crop_pos_x=fn.random.uniform(range=(0.0, 1.0)),
                    crop_pos_y=fn.random.uniform(range=(0.0, 1.0)))
    cubes = fn.flip(cubes, horizontal=fn.random.coin_flip())
    return fn.transpose(cubes, perm=[2, 0, 1])


def make_loader(files, batch_size, shape, crop, dark, gain):
    source = CubeSource(files, batch_size, shape, dark, gain)
    pipe = cube_pipeline(source, crop, batch_size=batch_size, num_threads=2, device_id=0,
                         prefetch_queue_depth=3)
    pipe.build()
    return DALIGenericIterator(pipe, ["cube"], last_batch_policy=LastBatchPolicy.DROP, auto_reset=True)


def channel_statistics(loader, channels, epochs=1):
    total = torch.zeros(channels, device="cuda")
    squares = torch.zeros(channels, device="cuda")
    count = 0
    for _ in range(epochs):
        for (item,) in loader:
            cube = item["cube"]
            total += cube.mean(dim=(0, 2, 3))
            squares += cube.square().mean(dim=(0, 2, 3))
            count += 1
    mean = total / count
    return mean.cpu(), (squares / count - mean ** 2).sqrt().cpu()
