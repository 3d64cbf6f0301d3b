import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

mod = SourceModule("""
__global__ void collatz(unsigned long long base, int *steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long v = base + i; int s = 0;
    while (v > 1) { v = (v & 1) ? 3 * v + 1 : v >> 1; ++s; }
    steps[i] = s;
}
""")
collatz = mod.get_function("collatz")


class Job:
    def __init__(self, n):
        self.n = n
        self.stream = drv.Stream()
        self.done = drv.Event(drv.event_flags.DISABLE_TIMING)
        self.dev = drv.mem_alloc(4 * n)
        self.host = drv.pagelocked_empty(n, np.int32)
        self.base = None

    def start(self, base):
        self.base = base
        collatz(np.uint64(base), self.dev, np.int32(self.n), block=(256, 1, 1),
                grid=((self.n + 255) // 256, 1), stream=self.stream)
        drv.memcpy_dtoh_async(self.host, self.dev, self.stream)
        self.done.record(self.stream)


class Scheduler:
    """Polls the jobs and restarts whichever has finished."""

    def __init__(self, workers, n):
        self.jobs = [Job(n) for _ in range(workers)]
        self.n = n

    def search(self, start, stop):
        best = (0, 0)
        active = []
        nxt = start
        for job in self.jobs:
            if nxt < stop:
                job.start(nxt)
                active.append(job)
                nxt += self.n
        while active:
            for job in list(active):
                if not job.done.query():
                    continue
                k = int(job.host.argmax())
                best = max(best, (int(job.host[k]), -(job.base + k)))
                if nxt < stop:
                    job.start(nxt)
                    nxt += self.n
                else:
                    active.remove(job)
        return best[0], -best[1]


if __name__ == "__main__":
    print(Scheduler(3, 1 << 16).search(1, 1 + (1 << 20)))
