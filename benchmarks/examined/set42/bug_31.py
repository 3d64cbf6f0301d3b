"""Layer-wise streaming of weights from disk with KvikIO while CuPy computes."""
import os
import tempfile
from typing import List

import cupy as cp
import kvikio
import numpy as np


class WeightFile:
    def __init__(self, path: str, layers: int, dim: int):
        self.path = path
        self.layers = layers
        self.dim = dim
        self.layer_bytes = dim * dim * 4

    @classmethod
    def create(cls, path: str, layers: int, dim: int, seed: int = 0) -> "WeightFile":
        rng = np.random.default_rng(seed)
        with open(path, "wb") as f:
            for _ in range(layers):
                w = rng.standard_normal((dim, dim), dtype=np.float32) / np.sqrt(dim)
                f.write(w.astype(np.float32).tobytes())
        return cls(path, layers, dim)


class LayerStreamer:
    """Keeps two device slots filled ahead of the compute stream."""

    def __init__(self, weights: WeightFile):
        self.weights = weights
        self.file = kvikio.CuFile(weights.path, "r")
        self.io = cp.cuda.Stream(non_blocking=True)
        shape = (weights.dim, weights.dim)
        self.slots = [cp.zeros(shape, dtype=cp.float32) for _ in range(2)]
        cp.cuda.get_current_stream().synchronize()
        self.loaded = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.consumed = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.futures: List = []

    def prefetch(self, layer: int):
        slot = layer % 2
        if layer >= 2:
            self.io.wait_event(self.consumed[slot])
        self.loaded[slot].record(self.io)
        future = self.file.raw_read_async(
            self.slots[slot],
            self.io.ptr,
            size=self.weights.layer_bytes,
            file_offset=layer * self.weights.layer_bytes,
        )
        self.futures.append(future)

    def acquire(self, layer: int, stream: cp.cuda.Stream) -> cp.ndarray:
        slot = layer % 2
        stream.wait_event(self.loaded[slot])
        return self.slots[slot]

    def release(self, layer: int, stream: cp.cuda.Stream):
        self.consumed[layer % 2].record(stream)

    def close(self) -> int:
        done = sum(f.check_bytes_done() for f in self.futures)
        self.file.close()
        return done


def forward(streamer: LayerStreamer, x: cp.ndarray, stream: cp.cuda.Stream):
    layers = streamer.weights.layers
    streamer.prefetch(0)
    with stream:
        for i in range(layers):
            if i + 1 < layers:
                streamer.prefetch(i + 1)
            w = streamer.acquire(i, stream)
            x = cp.maximum(x @ w, 0)
            streamer.release(i, stream)
    return x


def main(layers: int = 16, dim: int = 4096):
    with tempfile.TemporaryDirectory() as root:
        weights = WeightFile.create(os.path.join(root, "model.bin"), layers, dim)
        streamer = LayerStreamer(weights)
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            x = cp.ones((64, dim), dtype=cp.float32)
        y = forward(streamer, x, stream)
        stream.synchronize()
        print(float(y.mean()), streamer.close())


if __name__ == "__main__":
    main()
