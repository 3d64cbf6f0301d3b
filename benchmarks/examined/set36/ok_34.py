"""Column store on RMM device buffers, queried from CuPy on per-query streams."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream as RmmStream


class Column:
    """Memory that belongs to the stream of its owner."""

    def __init__(self, name, values, owner: "ColumnStore"):
        self.name = name
        self.dtype = values.dtype
        self.size = values.size
        self.buffer = rmm.DeviceBuffer(size=values.nbytes, stream=owner.rmm_stream)
        view = self.view()
        view.set(values, stream=owner.stream)
        owner.stream.synchronize()

    def view(self):
        memory = cp.cuda.UnownedMemory(self.buffer.ptr, self.buffer.size, self.buffer)
        return cp.ndarray((self.size,), dtype=self.dtype, memptr=cp.cuda.MemoryPointer(memory, 0))


class ColumnStore:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = RmmStream(self.stream)
        self.columns: dict[str, Column] = {}

    def put(self, name, values):
        self.columns[name] = Column(name, np.ascontiguousarray(values), self)

    def drop(self, name):
        del self.columns[name]


class Query:
    def __init__(self, store: ColumnStore):
        self.store = store
        self.stream = cp.cuda.Stream(non_blocking=True)

    def grouped_sum(self, key, value, groups):
        keys = self.store.columns[key].view()
        values = self.store.columns[value].view()
        with self.stream:
            out = cp.zeros(groups, dtype=cp.float64)
            cp.add.at(out, keys, values)
            done = self.stream.record()
        self.store.stream.wait_event(done)
        return out

    def read(self, array):
        with self.stream:
            return cp.asnumpy(array)


class Report:
    """Loads a day, starts its aggregates and drops the raw columns right away."""

    def __init__(self, groups=1000):
        self.groups = groups
        self.store = ColumnStore()
        self.queries = [Query(self.store) for _ in range(3)]
        self.results = []

    def day(self, index, keys, measures):
        self.store.put(f"key{index}", keys)
        query = self.queries[index % len(self.queries)]
        sums = []
        for m, values in enumerate(measures):
            name = f"m{m}_{index}"
            self.store.put(name, values)
            sums.append(query.grouped_sum(f"key{index}", name, self.groups))
            self.store.drop(name)
        self.store.drop(f"key{index}")
        self.results.append((query, sums))

    def totals(self):
        return [[query.read(s) for s in sums] for query, sums in self.results]


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    rng = np.random.default_rng(0)
    report = Report()
    for index in range(8):
        keys = rng.integers(0, 1000, size=1 << 20, dtype=np.int32)
        report.day(index, keys, [rng.random(1 << 20) for _ in range(4)])
    print(float(np.sum([np.sum(day) for day in report.totals()])))


if __name__ == "__main__":
    main()
