"""Nearest codeword assignment: distances on the compute stream, argmin statistics gathered on a second one."""
import cupy as cp


class AssignmentStats:
    def __init__(self, codewords):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.counts = cp.zeros(codewords, cp.int64)
            self.radius = cp.zeros(codewords, cp.float32)

    def update(self, distances, produced):
        with self.stream as s:
            s.wait_event(produced)
            nearest = distances.argmin(axis=1)
            cp.add.at(self.counts, nearest, 1)
            cp.maximum.at(self.radius, nearest, distances.min(axis=1))


class Quantizer:
    def __init__(self, codebook):
        self.codebook = codebook
        self.sq = (codebook ** 2).sum(axis=1)
        self.compute = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def distances(self, batch):
        d = batch @ self.codebook.T
        d *= -2
        d += self.sq
        d += (batch ** 2).sum(axis=1, keepdims=True)
        return d

    def run(self, loader, stats):
        with self.compute:
            for batch in loader:
                d = self.distances(batch)
                stats.update(d, self.compute.record())
                del d


def batches(n, rows, dim):
    for _ in range(n):
        yield cp.random.standard_normal((rows, dim), dtype=cp.float32)


def main():
    codebook = cp.random.standard_normal((4096, 128), dtype=cp.float32)
    stats = AssignmentStats(4096)
    quantizer = Quantizer(codebook)
    quantizer.run(batches(100, 16384, 128), stats)
    stats.stream.synchronize()
    print(int(stats.counts.sum()), float(stats.radius.max()))


if __name__ == "__main__":
    main()
