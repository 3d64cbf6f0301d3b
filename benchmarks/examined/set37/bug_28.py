"""Builds partitions of packed integers on several streams and checks their sums."""
from dataclasses import dataclass

import cupy as cp
import cupyx
import numpy as np


@dataclass
class PackedData:
    metadata: bytes
    gpu_data: cp.ndarray
    stream: cp.cuda.Stream


class StreamPool:
    def __init__(self, size):
        self._streams = [cp.cuda.Stream(non_blocking=True) for _ in range(size)]
        self._cursor = 0

    def get_stream(self):
        stream = self._streams[self._cursor]
        self._cursor = (self._cursor + 1) % len(self._streams)
        return stream

    def synchronize(self):
        for stream in self._streams:
            stream.synchronize()


def encode_metadata(n_elements, offset):
    return np.asarray([n_elements, offset], dtype=np.int64).tobytes()


def decode_metadata(metadata):
    n_elements, offset = np.frombuffer(metadata, dtype=np.int64)
    return int(n_elements), int(offset)


def generate_packed_data(n_elements, offset, stream):
    """A message of ``n_elements`` consecutive integers that start at ``offset``."""
    metadata = encode_metadata(n_elements, offset)
    values = cupyx.empty_pinned((n_elements,), dtype=np.int32)
    values[:] = np.arange(offset, offset + n_elements, dtype=np.int32)
    with stream:
        gpu_data = cp.empty((n_elements,), dtype=np.int32)
    gpu_data.set(values, stream=stream)
    return PackedData(metadata, gpu_data, stream)


def unpack_sum(packed):
    n_elements, offset = decode_metadata(packed.metadata)
    with packed.stream:
        total = packed.gpu_data[:n_elements].sum(dtype=cp.int64)
    expected = n_elements * offset + n_elements * (n_elements - 1) // 2
    return total, expected


class Shuffler:
    def __init__(self, n_partitions, streams):
        self.n_partitions = n_partitions
        self.streams = streams
        self._chunks = {p: [] for p in range(n_partitions)}

    def insert(self, chunks):
        for partition, packed in chunks.items():
            self._chunks[partition].append(packed)

    def extract(self, partition):
        return self._chunks.pop(partition)


def run(n_partitions=16, n_elements=1 << 22):
    pool = StreamPool(4)
    shuffler = Shuffler(n_partitions, pool)
    offset = 0
    for partition in range(n_partitions):
        packed = generate_packed_data(n_elements, offset, pool.get_stream())
        shuffler.insert({partition: packed})
        offset += 1024

    sums = []
    for partition in range(n_partitions):
        for packed in shuffler.extract(partition):
            sums.append(unpack_sum(packed))
    pool.synchronize()
    return [(int(total.get()), expected) for total, expected in sums]


if __name__ == "__main__":
    for total, expected in run():
        assert total == expected, (total, expected)
    print("ok")
