"""Relative humidity from t/q/ps chunks of a zarr store, written back while the next one is computed."""
import threading
from pathlib import Path
from typing import Iterator

import cupy as cp
import cupyx
import numpy as np
from numcodecs import Blosc, blosc

CHUNK = (24, 65, 200, 200)
CODEC = Blosc(cname="lz4", clevel=5, shuffle=1)


def read_chunk(path, dtype, shape):
    raw = blosc.decompress(Path(path).read_bytes())
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


def write_chunk(path, array):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(CODEC.encode(array))


def pingpong() -> Iterator[np.ndarray]:
    ping = cupyx.empty_pinned(CHUNK, dtype=np.float32)
    pong = cupyx.empty_pinned(CHUNK, dtype=np.float32)
    while True:
        yield ping
        yield pong


class HumidityPipeline:
    def __init__(self, root, out):
        self.root = root
        self.out = out
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.a = cp.asarray(read_chunk(f"{root}/a/0", np.float64, (65,)).astype(np.float32))
            self.b = cp.asarray(read_chunk(f"{root}/b/0", np.float64, (65,)).astype(np.float32))
        self.buffers = pingpong()
        self.io_thread = None

    def _compute(self, i, j, k, buf):
        t = cp.asarray(read_chunk(f"{self.root}/t/{i}.0.{j}.{k}", np.float32, CHUNK))
        q = cp.asarray(read_chunk(f"{self.root}/q/{i}.0.{j}.{k}", np.float32, CHUNK))
        ps = cp.asarray(read_chunk(f"{self.root}/ps/{i}.0.{j}.{k}", np.float32, (24, 1, 200, 200)))
        p = (self.a[None, :, None, None] + self.b[None, :, None, None] * ps) / 100
        tc = t - 273.15
        e = cp.where(
            tc > -5,
            6.107 * 10 ** (7.5 * tc / (237 + tc)),
            6.107 * 10 ** (9.5 * tc / (265.5 + tc)),
        )
        rh = 100 * (p * q) / (0.622 * e) * (p - e) / (p - (q * p) / 0.622)
        rh.get(stream=self.stream, out=buf, blocking=False)

    def _flush(self):
        if self.io_thread is not None:
            self.io_thread.join()
            self.io_thread = None

    def run(self, shape):
        with self.stream:
            for i, j, k in np.ndindex(*shape):
                buf = next(self.buffers)
                self._compute(i, j, k, buf)
                self._flush()
                self.stream.synchronize()
                self.io_thread = threading.Thread(
                    target=write_chunk, args=(f"{self.out}/{i}.0.{j}.{k}", buf)
                )
                self.io_thread.start()
        self._flush()


if __name__ == "__main__":
    HumidityPipeline("../data/dataset.zarr", "out.zarr/rh").run((3, 6, 5))
