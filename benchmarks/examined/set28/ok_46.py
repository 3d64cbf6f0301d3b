"""Brute-force recall check: RAFT distances on the handle's stream, bookkeeping on a CuPy stream."""
import cupy as cp
import cupyx
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


class ExactSearch:
    """Two query tiles in flight; distances and selection use different streams."""

    def __init__(self, database, k, tile):
        self.k, self.tile = k, tile
        self.raft_stream = cp.cuda.Stream(non_blocking=True)
        self.select_stream = cp.cuda.Stream(non_blocking=True)
        self.handle = DeviceResources(self.raft_stream.ptr)
        with self.raft_stream:
            self.database = cp.asarray(database)
            self.queries = [cp.empty((tile, database.shape[1]), cp.float32) for _ in range(2)]
            self.distances = [cp.empty((tile, database.shape[0]), cp.float32) for _ in range(2)]
        self.host_queries = [
            cupyx.empty_pinned((tile, database.shape[1]), dtype=np.float32) for _ in range(2)
        ]
        self.host_ids = [cupyx.empty_pinned((tile, k), dtype=np.int64) for _ in range(2)]
        self.computed = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.selected = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.raft_stream.synchronize()

    def _submit(self, slot, rows):
        self.host_queries[slot][...] = rows
        self.raft_stream.wait_event(self.selected[slot])
        self.queries[slot].set(self.host_queries[slot], stream=self.raft_stream)
        pairwise_distance(
            self.queries[slot],
            self.database,
            out=self.distances[slot],
            metric="sqeuclidean",
            handle=self.handle,
        )
        self.computed[slot].record(self.raft_stream)
        self.select_stream.wait_event(self.computed[slot])
        with self.select_stream:
            ids = cp.argpartition(self.distances[slot], self.k, axis=1)[:, : self.k]
            ids = cp.ascontiguousarray(ids.astype(cp.int64))
            ids.get(stream=self.select_stream, out=self.host_ids[slot], blocking=False)
        self.selected[slot].record(self.select_stream)

    def _collect(self, slot):
        self.selected[slot].synchronize()
        return np.sort(self.host_ids[slot], axis=1)

    def search(self, queries):
        out = []
        tiles = queries.shape[0] // self.tile
        for t in range(tiles):
            slot = t % 2
            if t >= 2:
                out.append(self._collect(slot))
            self._submit(slot, queries[t * self.tile : (t + 1) * self.tile])
        for t in range(max(tiles - 2, 0), tiles):
            out.append(self._collect(t % 2))
        return np.concatenate(out)


def main():
    rng = np.random.default_rng(3)
    database = rng.normal(size=(50_000, 96)).astype(np.float32)
    queries = rng.normal(size=(8192, 96)).astype(np.float32)
    search = ExactSearch(database, k=10, tile=1024)
    print(search.search(queries).shape)


if __name__ == "__main__":
    main()
