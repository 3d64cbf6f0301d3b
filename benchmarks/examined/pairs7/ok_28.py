"""Map and reduce over shards: every map has its own stream, one stream reduces."""
import cupy as cp
import numpy as np

SHARD = 1 << 20


class MapReduce:
    def __init__(self, width=6):
        self.maps = [cp.cuda.Stream(non_blocking=True) for _ in range(width)]
        self.reduce = cp.cuda.Stream(non_blocking=True, priority=-1)
        self.finished = {}

    def _map(self, index, shard):
        stream = self.maps[index]
        with stream:
            x = cp.asarray(shard)
            partial = cp.stack([cp.sin(x).sum(), cp.cos(x).sum(), cp.square(x).sum()])
            self.finished[index] = cp.cuda.get_current_stream().record()
        return partial

    def __call__(self, shards):
        partials = [self._map(i, shard) for i, shard in enumerate(shards)]
        with self.reduce:
            for event in self.finished.values():
                self.reduce.wait_event(event)
            total = partials[0]
            for partial in partials[1:]:
                total = total + partial
            return total.get()


def main():
    rng = np.random.default_rng(39)
    job = MapReduce()
    for _ in range(10):
        print(job([rng.standard_normal(SHARD) for _ in range(6)]))


if __name__ == "__main__":
    main()
