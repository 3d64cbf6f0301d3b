"""Tasks on GPU processors; every task body gets its processor's stream."""
import queue
import threading

import cupy as cp


class FBMemory:
    """Framebuffer instances are carved from a fixed set of equal blocks."""

    def __init__(self, n_blocks, n):
        self.lock = threading.Lock()
        self.blocks = [cp.zeros(n, cp.float32) for _ in range(n_blocks)]
        cp.cuda.get_current_stream().synchronize()

    def alloc(self):
        with self.lock:
            return self.blocks.pop()

    def free(self, block):
        with self.lock:
            self.blocks.append(block)


class GPUProcessor(threading.Thread):
    def __init__(self, fb, index):
        super().__init__(daemon=True)
        self.fb = fb
        self.index = index
        self.tasks = queue.Queue()
        self.errors = []

    def run(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        while True:
            task = self.tasks.get()
            if task is None:
                break
            task(self)
        self.stream.synchronize()


class StencilTask:
    def __init__(self, region, value):
        self.region = region
        self.value = value

    def __call__(self, proc):
        ghost = proc.fb.alloc()
        with proc.stream:
            ghost.fill(self.value)
            for _ in range(4):
                ghost[1:-1] = 0.5 * (ghost[:-2] + ghost[2:])
            self.region += ghost
        proc.fb.free(ghost)


def main():
    n = 1 << 22
    fb = FBMemory(3, n)
    procs = [GPUProcessor(fb, i) for i in range(2)]
    regions = [cp.zeros(n, cp.float32) for _ in procs]
    cp.cuda.get_current_stream().synchronize()
    for p in procs:
        p.start()
    for step in range(40):
        for p, region in zip(procs, regions):
            p.tasks.put(StencilTask(region, float(p.index + 1)))
    for p in procs:
        p.tasks.put(None)
    for p in procs:
        p.join()
    for p, region in zip(procs, regions):
        assert float(region[n // 2]) == 40.0 * (p.index + 1)


if __name__ == "__main__":
    main()
