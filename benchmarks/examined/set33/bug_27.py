from dataclasses import dataclass
from typing import Iterator, List

import cupy as cp
import kvikio


@dataclass
class Stripe:
    offset: int
    length: int
    rows: int


_expand = cp.ElementwiseKernel(
    "raw uint8 packed, int32 width",
    "float32 out",
    """
    int word = 0;
    for (int b = 0; b < width; ++b) word |= ((int)packed[i * width + b]) << (8 * b);
    out = (float)word;
    """,
    "expand_packed",
)


class StripeReader:
    """Reads byte-packed columns straight into device memory and widens them."""

    PAD = 256

    def __init__(self, path: str, width: int = 2):
        self.file = kvikio.CuFile(path, "r")
        self.width = width
        self.stream = cp.cuda.Stream(non_blocking=True)

    def close(self) -> None:
        self.stream.synchronize()
        self.file.close()

    def _buffer(self, length: int) -> cp.ndarray:
        padded = (length + self.PAD - 1) // self.PAD * self.PAD
        return cp.zeros(padded, dtype=cp.uint8)

    def read_group(self, stripes: List[Stripe]) -> List[cp.ndarray]:
        with self.stream:
            buffers = [self._buffer(s.length) for s in stripes]
            futures = [
                self.file.pread(buf[: s.length], s.length, file_offset=s.offset)
                for buf, s in zip(buffers, stripes)
            ]
            for fut, s in zip(futures, stripes):
                if fut.get() != s.length:
                    raise IOError(f"short read at {s.offset}")
            return [
                _expand(buf, cp.int32(self.width), size=s.rows)
                for buf, s in zip(buffers, stripes)
            ]

    def iter_groups(self, stripes: List[Stripe], group: int = 8) -> Iterator[List[cp.ndarray]]:
        for start in range(0, len(stripes), group):
            yield self.read_group(stripes[start : start + group])


def column_sum(path: str, stripes: List[Stripe]) -> float:
    reader = StripeReader(path)
    try:
        partial = []
        for columns in reader.iter_groups(stripes):
            with reader.stream:
                partial.extend(col.sum() for col in columns)
        with reader.stream:
            return float(cp.stack(partial).sum())
    finally:
        reader.close()
