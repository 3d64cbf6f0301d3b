"""Tile server with rendering threads on CuPy."""
import threading
from queue import Queue

import cupy as cp
import numpy as np

PALETTE = np.array([[0, 0, 90], [0, 120, 200], [240, 220, 90], [180, 20, 10]], np.float32)


class TileWorker(threading.Thread):
    def __init__(self, jobs, results):
        super().__init__(daemon=True)
        self.jobs, self.results = jobs, results

    def run(self):
        cp.cuda.Device(0).use()
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            palette = cp.asarray(PALETTE)
            while True:
                job = self.jobs.get()
                if job is None:
                    break
                key, raw = job
                self.results.put((key, self._render(raw, palette)))

    @staticmethod
    def _render(raw, palette):
        z = cp.asarray(raw, dtype=cp.float32)
        z = (z - z.min()) / (z.max() - z.min() + 1e-6) * (len(palette) - 1.001)
        low = z.astype(cp.int32)
        frac = (z - low)[..., None]
        rgb = palette[low] * (1 - frac) + palette[low + 1] * frac
        return cp.asnumpy(rgb.astype(cp.uint8))


class TileServer:
    def __init__(self, workers=4):
        cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
        self.jobs, self.results = Queue(), Queue()
        self.workers = [TileWorker(self.jobs, self.results) for _ in range(workers)]
        for w in self.workers:
            w.start()

    def render(self, tiles):
        for item in tiles.items():
            self.jobs.put(item)
        return dict(self.results.get() for _ in tiles)

    def shutdown(self):
        for _ in self.workers:
            self.jobs.put(None)
        for w in self.workers:
            w.join()


def main():
    rng = np.random.default_rng(0)
    server = TileServer()
    done = server.render({(x, y): rng.normal(size=(512, 512)) for x in range(16) for y in range(16)})
    server.shutdown()
    print(len(done), done[(3, 4)].mean())


if __name__ == "__main__":
    main()
