from typing import Sequence, Tuple

import cupy as cp
import cupyx
import numpy as np


class NVCategory:
    """Dictionary encoded column: unique keys plus one index per row, both on the device."""

    def __init__(self, values: Sequence[str]):
        codes = {}
        index = np.empty(len(values), dtype=np.int32)
        for row, value in enumerate(values):
            index[row] = codes.setdefault(value, len(codes))
        self._host_keys = list(codes)
        self._stream = cp.cuda.Stream()
        with self._stream:
            self._map = cp.asarray(index)
            self._hash = cp.asarray([hash(k) & 0x7FFFFFFF for k in self._host_keys], dtype=cp.int32)
        self._scratch = cupyx.empty_pinned(2, dtype=np.int32)

    def size(self) -> int:
        return int(self._map.size)

    def keys_size(self) -> int:
        return len(self._host_keys)

    def _fetch(self, device_slice: cp.ndarray, slot: int) -> None:
        device_slice.get(
            stream=self._stream, out=self._scratch[slot : slot + 1], blocking=False
        )

    def get_value(self, index: int) -> int:
        self._fetch(self._map[index : index + 1], 0)
        return int(self._scratch[0])

    def get_value_bounds(self, key: str) -> Tuple[int, int]:
        with self._stream:
            probe = hash(key) & 0x7FFFFFFF
            ordered = cp.sort(self._hash)
            first = cp.searchsorted(ordered, cp.asarray([probe], dtype=cp.int32), side="left")
            last = cp.searchsorted(ordered, cp.asarray([probe], dtype=cp.int32), side="right")
            self._fetch(first.astype(cp.int32), 0)
            self._fetch(last.astype(cp.int32), 1)
        return int(self._scratch[0]) - 1, int(self._scratch[1])

    def gather_values(self, rows: Sequence[int]) -> cp.ndarray:
        with self._stream:
            out = self._map[cp.asarray(rows, dtype=cp.int64)]
        self._stream.synchronize()
        return out

    def to_strings(self) -> list:
        with self._stream:
            index = cp.asnumpy(self._map)
        return [self._host_keys[i] for i in index]
