"""Chunked array store whose chunks are decoded on the GPU."""
import asyncio
from dataclasses import dataclass
from itertools import product

import cupy as cp
import numpy as np

_undelta = cp.RawKernel(
    r"""
    extern "C" __global__ void undelta(const short* src, float* dst, float scale,
                                       int rows, int cols) {
        int r = blockIdx.x * blockDim.x + threadIdx.x;
        if (r >= rows) return;
        float acc = 0.f;
        for (int c = 0; c < cols; ++c) {
            acc += scale * (float)src[r * cols + c];
            dst[r * cols + c] = acc;
        }
    }
    """,
    "undelta",
)


@dataclass(frozen=True)
class ChunkSpec:
    shape: tuple
    scale: float


class DeltaCodec:
    """Decodes a batch of chunks; the kernels go to the codec's own stream."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def _decode_one(self, payload: bytes, spec: ChunkSpec):
        rows, cols = spec.shape
        raw = cp.asarray(np.frombuffer(payload, dtype=np.int16))
        out = cp.empty((rows, cols), dtype=cp.float32)
        threads = 128
        blocks = (rows + threads - 1) // threads
        _undelta((blocks,), (threads,), (raw, out, np.float32(spec.scale), np.int32(rows), np.int32(cols)))
        return out

    async def decode(self, batch):
        with self.stream:
            return [None if p is None else self._decode_one(p, spec) for p, spec in batch]


class MemoryStore:
    def __init__(self):
        self._data: dict = {}

    def set(self, key, value: bytes):
        self._data[key] = value

    async def get(self, key):
        await asyncio.sleep(0)
        return self._data.get(key)


class GpuArray:
    def __init__(self, store: MemoryStore, shape, chunks, scale=0.01, fill=0.0):
        self.store = store
        self.shape = shape
        self.chunks = chunks
        self.spec = ChunkSpec(chunks, scale)
        self.fill = fill
        self.codec = DeltaCodec()

    def _keys(self):
        grid = [range(s // c) for s, c in zip(self.shape, self.chunks)]
        return list(product(*grid))

    async def _read(self):
        keys = self._keys()
        payloads = await asyncio.gather(*(self.store.get(k) for k in keys))
        chunks = await self.codec.decode([(p, self.spec) for p in payloads])
        out = cp.full(self.shape, self.fill, dtype=cp.float32)
        for (i, j), chunk in zip(keys, chunks):
            if chunk is None:
                continue
            r, c = i * self.chunks[0], j * self.chunks[1]
            out[r:r + self.chunks[0], c:c + self.chunks[1]] = chunk
        return out, chunks

    def read(self):
        out, chunks = asyncio.run(self._read())
        self._hold = chunks
        return out


def write(store, data, chunks, scale=0.01):
    for i, j in product(range(data.shape[0] // chunks[0]), range(data.shape[1] // chunks[1])):
        block = data[i * chunks[0]:(i + 1) * chunks[0], j * chunks[1]:(j + 1) * chunks[1]]
        delta = np.diff(block, axis=1, prepend=0.0)
        store.set((i, j), np.round(delta / scale).astype(np.int16).tobytes())


def main():
    data = np.cumsum(np.random.default_rng(0).normal(size=(4096, 4096)), axis=1) * 0.1
    store = MemoryStore()
    write(store, data, (1024, 1024))
    array = GpuArray(store, data.shape, (1024, 1024))
    for _ in range(4):
        loaded = array.read()
    print(float(cp.abs(loaded).max()))


if __name__ == "__main__":
    main()
