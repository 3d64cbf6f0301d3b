"""Tiled brute-force neighbours: two RAFT handles, merge on a third stream."""
import cupy as cp
import numpy as np
from pylibraft.common import DeviceResources
from pylibraft.distance import pairwise_distance


class TileWorker:
    """A handle on its own stream with a distance tile that it reuses."""

    def __init__(self, n_queries, tile):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.handle = DeviceResources(self.stream.ptr)
        with self.stream:
            self.tile = cp.empty((n_queries, tile), cp.float32)
        self.merged = None

    def launch(self, queries, part, inputs_ready):
        self.stream.wait_event(inputs_ready)
        if self.merged is not None:
            self.stream.wait_event(self.merged)
        if part.shape[0] == self.tile.shape[1]:
            out = self.tile
        else:
            with self.stream:
                out = cp.empty((queries.shape[0], part.shape[0]), cp.float32)
        pairwise_distance(queries, part, out=out, metric="euclidean", handle=self.handle)
        return out


class BruteForceKNN:
    def __init__(self, k, tile=8192, workers=2):
        self.k = k
        self.tile = tile
        self.n_workers = workers
        self.merge = cp.cuda.Stream(non_blocking=True)

    def _merge(self, best_d, best_i, tile, offset):
        ids = cp.broadcast_to(cp.arange(offset, offset + tile.shape[1]), tile.shape)
        cand_d = cp.concatenate([best_d, tile], axis=1)
        cand_i = cp.concatenate([best_i, ids], axis=1)
        order = cp.argpartition(cand_d, self.k, axis=1)[:, :self.k]
        return (cp.take_along_axis(cand_d, order, axis=1),
                cp.take_along_axis(cand_i, order, axis=1))

    def kneighbors(self, index, queries):
        workers = [TileWorker(queries.shape[0], self.tile) for _ in range(self.n_workers)]
        inputs_ready = cp.cuda.get_current_stream().record()
        with self.merge:
            best_d = cp.full((queries.shape[0], self.k), cp.inf, cp.float32)
            best_i = cp.full((queries.shape[0], self.k), -1, cp.int64)

        for turn, offset in enumerate(range(0, index.shape[0], self.tile)):
            worker = workers[turn % len(workers)]
            tile = worker.launch(queries, index[offset:offset + self.tile], inputs_ready)
            self.merge.wait_event(worker.stream.record())
            with self.merge:
                best_d, best_i = self._merge(best_d, best_i, tile, offset)
            worker.merged = self.merge.record()

        for worker in workers:
            if worker.merged is not None:
                worker.merged.synchronize()
            worker.handle.sync()
        with self.merge:
            order = cp.argsort(best_d, axis=1)
            return (cp.take_along_axis(best_d, order, axis=1).get(),
                    cp.take_along_axis(best_i, order, axis=1).get())


def main():
    rng = np.random.default_rng(2)
    index = cp.asarray(rng.normal(size=(65536, 32)).astype(np.float32))
    queries = cp.asarray(rng.normal(size=(512, 32)).astype(np.float32))
    distances, ids = BruteForceKNN(k=10).kneighbors(index, queries)
    print(distances.mean(), ids[:, 0].min())


if __name__ == "__main__":
    main()
