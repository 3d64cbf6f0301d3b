"""Out-of-core group-by: partitions are sorted by key on the device, sorted runs collected as host arrays."""
import numpy as np
import cupy as cp
import cupyx


class Partitioner:
    def __init__(self, rows, lanes=2):
        self.rows = rows
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(lanes)]
        self.stage = [cupyx.empty_pinned((rows,), dtype=np.int64) for _ in range(lanes)]
        self.uploaded = [cp.cuda.Event(disable_timing=True) for _ in range(lanes)]

    def sorted_runs(self, batches):
        runs = []
        for i, keys in enumerate(batches):
            lane = i % len(self.streams)
            stream = self.streams[lane]
            self.uploaded[lane].synchronize()
            self.stage[lane][...] = keys
            with stream:
                dev = cp.empty(self.rows, cp.int64)
                dev.set(self.stage[lane], stream=stream)
                self.uploaded[lane].record(stream)
                dev.sort()
                run = cupyx.empty_pinned((self.rows,), dtype=np.int64)
                dev.get(stream=stream, out=run, blocking=False)
            runs.append(run)
        self.streams[lane].synchronize()
        return runs


class GroupCounter:
    def __init__(self):
        self.keys = np.empty(0, np.int64)
        self.counts = np.empty(0, np.int64)

    def absorb(self, run):
        starts = np.flatnonzero(np.r_[True, run[1:] != run[:-1]])
        keys = run[starts]
        counts = np.diff(np.r_[starts, len(run)])
        merged = np.concatenate((self.keys, keys))
        order = np.argsort(merged, kind="stable")
        merged = merged[order]
        weights = np.concatenate((self.counts, counts))[order]
        heads = np.flatnonzero(np.r_[True, merged[1:] != merged[:-1]])
        self.keys = merged[heads]
        self.counts = np.add.reduceat(weights, heads)


def main(rows=1 << 22, n=9):
    rng = np.random.default_rng(3)
    partitioner = Partitioner(rows)
    counter = GroupCounter()
    for run in reversed(partitioner.sorted_runs(rng.integers(0, 10_000, rows) for _ in range(n))):
        counter.absorb(run)
    print(len(counter.keys), counter.counts.sum())


if __name__ == "__main__":
    main()
