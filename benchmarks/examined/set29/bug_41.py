"""Barrier operators of a columnar engine: input vectors arrive on the streams
of their drivers, are concatenated, and leave in output batches of a fixed
number of rows."""
import collections

import cupy as cp
import numpy as np


class StreamPool:
    def __init__(self, n):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n)]
        self.i = -1

    def get(self):
        self.i = (self.i + 1) % len(self.streams)
        return self.streams[self.i]


class CudfVector:
    def __init__(self, columns, stream):
        self.columns = columns
        self.stream = stream

    @property
    def num_rows(self):
        return len(next(iter(self.columns.values())))


def concatenated_table(vectors, stream):
    events = [v.stream.record() for v in vectors]
    for e in events:
        stream.wait_event(e)
    with stream:
        out = {k: cp.concatenate([v.columns[k] for v in vectors]) for k in vectors[0].columns}
    done = stream.record()
    for v in vectors:
        v.stream.wait_event(done)
    return CudfVector(out, stream)


class CudfToVelox:
    """Splits concatenated vectors into preferred output batches."""

    def __init__(self, batch_rows):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.batch_rows = batch_rows
        self.inputs = collections.deque()
        self.held = []

    def add_input(self, vector):
        self.inputs.append(vector)

    def get_output(self):
        if not self.inputs:
            return None
        vector = self.inputs.popleft()
        self.held.append(vector)
        pieces = []
        with self.stream:
            for start in range(0, vector.num_rows, self.batch_rows):
                stop = start + self.batch_rows
                pieces.append({k: c[start:stop].copy() for k, c in vector.columns.items()})
        return [CudfVector(p, self.stream) for p in pieces]

    def close(self):
        self.stream.synchronize()
        self.held.clear()


def from_host(pool, chunk):
    stream = pool.get()
    with stream:
        return CudfVector({k: cp.asarray(v) for k, v in chunk.items()}, stream)


def run(chunks, group=4, batch_rows=100_000):
    pool = StreamPool(6)
    sink = CudfToVelox(batch_rows)
    held, sums = [], []
    for i in range(0, len(chunks), group):
        vectors = [from_host(pool, c) for c in chunks[i:i + group]]
        held.append(vectors)
        sink.add_input(concatenated_table(vectors, pool.get()))
        for piece in sink.get_output():
            with piece.stream:
                sums.append((piece.columns["key"] * piece.columns["val"]).sum())
    sink.close()
    return float(sum(s.get() for s in sums))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    data = [{"key": rng.random(150_000), "val": rng.random(150_000)} for _ in range(16)]
    print(run(data), sum(float((d["key"] * d["val"]).sum()) for d in data))
