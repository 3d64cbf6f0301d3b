"""Brute-force k-nearest neighbours; reference tiles on several streams, partial results merged at the end."""
import cupy as cp


class TileSearch:
    def __init__(self, reference, k, tile, n_streams=3):
        self.k, self.tile = k, tile
        self.reference = reference
        self.norms = (reference ** 2).sum(axis=1)
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_streams)]
        self.prepared = cp.cuda.get_current_stream().record()

    def _tile(self, q, lo, hi, dist, idx):
        d = self.norms[lo:hi] - 2 * q @ self.reference[lo:hi].T
        part = cp.argpartition(d, self.k, axis=1)[:, :self.k]
        idx[...] = part + lo
        dist[...] = cp.take_along_axis(d, part, axis=1)

    def query(self, q):
        caller = cp.cuda.get_current_stream()
        bounds = list(range(0, len(self.reference), self.tile))
        dist = cp.empty((len(q), len(bounds), self.k), cp.float32)
        idx = cp.empty((len(q), len(bounds), self.k), cp.int64)
        start = caller.record()
        for s in self.streams:
            s.wait_event(self.prepared)
            s.wait_event(start)
        for t, lo in enumerate(bounds):
            s = self.streams[t % len(self.streams)]
            with s:
                self._tile(q, lo, min(lo + self.tile, len(self.reference)), dist[:, t], idx[:, t])
        for s in self.streams:
            caller.wait_event(s.record())
        dist = dist.reshape(len(q), -1)
        idx = idx.reshape(len(q), -1)
        best = cp.argsort(dist, axis=1)[:, :self.k]
        return cp.take_along_axis(idx, best, axis=1)


def main():
    reference = cp.random.standard_normal((200_000, 64), dtype=cp.float32)
    search = TileSearch(reference, k=10, tile=20_000)
    hits = 0
    for batch in range(8):
        q = reference[batch * 512:(batch + 1) * 512] + 0.001
        found = search.query(q)
        hits += int((found[:, 0] == cp.arange(batch * 512, (batch + 1) * 512)).sum())
    print(hits / 4096)


if __name__ == "__main__":
    main()
