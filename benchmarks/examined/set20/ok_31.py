"""GPU preprocessing source for a DALI pipeline."""
import cupy as cp
import cupyx
import numpy as np
from nvidia.dali import fn, pipeline_def, types


class TileSource:
    """Generates batches on its own stream into a small ring of device buffers."""

    def __init__(self, tiles, batch_size, ring=2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.tiles = tiles
        self.batch_size = batch_size
        h, w = tiles[0].shape
        with self.stream:
            self.raw = cp.empty((batch_size, h, w), dtype=cp.uint16)
            self.ring = [cp.empty((batch_size, h, w, 1), dtype=cp.float32) for _ in range(ring)]
            self.gain = cp.linspace(0.8, 1.2, w, dtype=cp.float32)
        self.stream.synchronize()
        self.count = 0

    def __call__(self):
        out = self.ring[self.count % len(self.ring)]
        start = self.count * self.batch_size
        self.count += 1
        for k in range(self.batch_size):
            self.raw[k].set(self.tiles[(start + k) % len(self.tiles)], stream=self.stream)
        with self.stream:
            cp.multiply(self.raw, self.gain, out=out[..., 0])
            out -= out.mean(axis=(1, 2, 3), keepdims=True)
        return out


@pipeline_def
def tile_pipeline(source, size):
    images = fn.external_source(source=source, device="gpu", batch=True, layout="HWC",
                                cuda_stream=source.stream.ptr, dtype=types.FLOAT)
    images = fn.resize(images, size=(size, size))
    return fn.crop_mirror_normalize(images, mean=[0.0], std=[1000.0], dtype=types.FLOAT,
                                    output_layout="CHW")


def make_tiles(count, height, width):
    rng = np.random.default_rng(0)
    tiles = []
    for _ in range(count):
        t = cupyx.empty_pinned((height, width), dtype=np.uint16)
        t[...] = rng.integers(0, 4096, (height, width), dtype=np.uint16)
        tiles.append(t)
    return tiles


def main(batch_size=8, iterations=20):
    source = TileSource(make_tiles(32, 256, 256), batch_size)
    pipe = tile_pipeline(source, 128, batch_size=batch_size, num_threads=2, device_id=0,
                         prefetch_queue_depth=2)
    pipe.build()
    means = []
    for _ in range(iterations):
        (images,) = pipe.run()
        means.append(images.as_cpu().as_array().mean())
    source.stream.synchronize()
    return means


if __name__ == "__main__":
    print(main())
