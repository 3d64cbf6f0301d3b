import cupy as cp
import numpy as np

scale_add = cp.ElementwiseKernel(
    "float32 x, float32 a, float32 b", "float32 y", "y = a * x + b", "scale_add")


class TileProcessor:
    """Filters tiles on worker streams and accumulates them on the null stream."""

    def __init__(self, shape, workers: int = 3):
        self.streams = [cp.cuda.Stream(non_blocking=False) for _ in range(workers)]
        self.tiles = [cp.empty(shape, dtype=cp.float32) for _ in range(workers)]
        self.scratch = [cp.empty(shape, dtype=cp.float32) for _ in range(workers)]
        self.total = cp.zeros(shape, dtype=cp.float32)

    def _load(self, index: int, tile: np.ndarray) -> None:
        self.tiles[index].set(tile)

    def _filter(self, index: int, gain: float) -> None:
        with self.streams[index]:
            scale_add(self.tiles[index], np.float32(gain), np.float32(0.5), self.scratch[index])
            cp.sqrt(cp.abs(self.scratch[index]), out=self.scratch[index])

    def _accumulate(self, count: int) -> None:
        for index in range(count):
            self.total += self.scratch[index]

    def process(self, tiles, gain: float = 2.0) -> np.ndarray:
        group = []
        for tile in tiles:
            group.append(tile)
            if len(group) == len(self.streams):
                self._run_group(group, gain)
                group = []
        if group:
            self._run_group(group, gain)
        return cp.asnumpy(self.total)

    def _run_group(self, group, gain):
        for index, tile in enumerate(group):
            self._load(index, tile)
        for index in range(len(group)):
            self._filter(index, gain)
        self._accumulate(len(group))


def main():
    rng = np.random.default_rng(0)
    tiles = (rng.standard_normal((1024, 1024), dtype=np.float32) for _ in range(17))
    result = TileProcessor((1024, 1024)).process(tiles)
    print(result.mean())


if __name__ == "__main__":
    main()
