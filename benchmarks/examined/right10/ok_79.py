"""Tile server: a worker thread renders on its stream; the caller's stream receives tile and event."""
import threading
from concurrent.futures import Future
from queue import Queue

import cupy as cp
import numpy as np

mandel = cp.ElementwiseKernel(
    "float64 x0, float64 y0, float64 step, int32 width, int32 rounds",
    "int32 n",
    """
    double cx = x0 + step * (i % width), cy = y0 + step * (i / width);
    double x = 0, y = 0;
    int k = 0;
    while (k < rounds && x * x + y * y < 4.0) {
        double t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        ++k;
    }
    n = k;
    """,
    "mandel",
)


class TileServer:
    def __init__(self, side: int):
        self.side = side
        self.jobs: Queue = Queue()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            spare = []
            while True:
                job = self.jobs.get()
                if job is None:
                    break
                kind, payload = job
                if kind == "return":
                    spare.append(payload)
                    continue
                x, y, step, fut = payload
                if spare:
                    tile, read = spare.pop()
                    stream.wait_event(read)
                else:
                    tile = cp.empty((self.side, self.side), cp.int32)
                mandel(x, y, step, self.side, 300, tile)
                fut.set_result((tile, stream.record()))
        stream.synchronize()

    def ask(self, x, y, step) -> Future:
        fut: Future = Future()
        self.jobs.put(("render", (x, y, step, fut)))
        return fut

    def give_back(self, tile, event):
        self.jobs.put(("return", (tile, event)))

    def close(self):
        self.jobs.put(None)
        self.thread.join()


def main():
    server = TileServer(256)
    mine = cp.cuda.Stream(non_blocking=True)
    with mine:
        columns = cp.zeros(256, cp.int64)
        for k in range(24):
            tile, done = server.ask(-2.0 + 0.1 * k, -1.0, 3e-3).result()
            mine.wait_event(done)
            columns += tile.sum(axis=0)
            server.give_back(tile, mine.record())
        host = columns.get(stream=mine)
        mine.synchronize()
    server.close()
    print(int(host.argmax()), int(host.sum()))


if __name__ == "__main__":
    main()
