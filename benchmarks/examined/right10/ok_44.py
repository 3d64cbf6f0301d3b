"""Host-function notifications: the writer thread is woken when a block has reached pinned memory."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Block:
    def __init__(self, n):
        self.host = cupyx.empty_pinned((n,), np.float64)
        self.dev = cp.empty(n, np.float64)
        self.index = -1
        self.free = threading.Event()
        self.free.set()


class Writer(threading.Thread):
    def __init__(self, path, n):
        super().__init__()
        self.path, self.n = path, n
        self.arrived: "queue.SimpleQueue[Block | None]" = queue.SimpleQueue()

    def run(self):
        with open(self.path, "wb") as f:
            while (block := self.arrived.get()) is not None:
                f.seek(block.index * self.n * 8)
                f.write(block.host.tobytes())
                block.free.set()


def simulate(path: str, n: int = 1 << 18, steps: int = 50, depth: int = 4):
    stream = cp.cuda.Stream(non_blocking=True)
    writer = Writer(path, n)
    writer.start()
    with stream:
        state = cp.linspace(0.0, 1.0, n)
        blocks = [Block(n) for _ in range(depth)]
        for i in range(steps):
            b = blocks[i % depth]
            b.free.wait()
            b.free.clear()
            b.index = i
            state += 0.1 * cp.sin(state * 3.0)
            cp.multiply(state, 2.0, out=b.dev)
            b.dev.data.copy_to_host_async(b.host.ctypes.data, b.dev.nbytes, stream)
            stream.launch_host_func(writer.arrived.put, b)
        stream.synchronize()
    writer.arrived.put(None)
    writer.join()


if __name__ == "__main__":
    simulate("trace.bin")
    print(np.fromfile("trace.bin").reshape(50, -1).mean(axis=1)[-3:])
