"""Dictionary encoding of host chunks, device copies made by RMM."""
from typing import List, Tuple

import cupy as cp
import cupyx
import numpy as np
import rmm


class ChunkEncoder:
    def __init__(self, rows: int, vocabulary: np.ndarray):
        self.page = cupyx.empty_pinned(rows, dtype=np.int32)
        self.vocab = cp.asarray(np.sort(vocabulary))
        self.counts = cp.zeros(self.vocab.size, dtype=cp.int64)

    def _stage(self, chunk: np.ndarray) -> np.ndarray:
        page = self.page[: chunk.size]
        page[:] = chunk
        return page

    def encode(self, chunk: np.ndarray) -> cp.ndarray:
        page = self._stage(chunk)
        buf = rmm.DeviceBuffer.to_device(page.view(np.uint8))
        column = cp.asarray(buf).view(cp.int32)
        codes = cp.searchsorted(self.vocab, column)
        self.counts += cp.bincount(codes, minlength=self.vocab.size)
        return codes.astype(cp.uint16)

    def decode(self, codes: cp.ndarray) -> np.ndarray:
        return cp.asnumpy(self.vocab[codes.astype(cp.int64)])

    def top(self, k: int):
        order = cp.argsort(self.counts)[::-1][:k]
        return cp.asnumpy(self.vocab[order])


def run(rows: int = 1 << 20, rounds: int = 12) -> Tuple[List[int], np.ndarray]:
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    rng = np.random.default_rng(5)
    vocabulary = np.arange(0, 5000, 7, dtype=np.int32)
    encoder = ChunkEncoder(rows, vocabulary)
    encoded = []
    for _ in range(rounds):
        chunk = rng.choice(vocabulary, size=int(rng.integers(rows // 2, rows)))
        encoded.append(encoder.encode(chunk))
        if len(encoded) == 1:
            assert np.array_equal(encoder.decode(encoded[0]), chunk)
    sizes = [int(e.size) for e in encoded]
    return sizes, encoder.top(5)


def main():
    sizes, top = run()
    for i, size in enumerate(sizes):
        print(f"chunk {i}: {size} rows")
    print("most common values:", top)


if __name__ == "__main__":
    main()
