"""Multi-stream search loop: collect a stream's results, restart it at once, report later."""
import queue
from dataclasses import dataclass

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

SEARCH_RESULTS = 4

KERNEL = r"""
__global__ void search(const unsigned long long *job, unsigned long long start,
                       unsigned int *out)
{
    unsigned long long nonce = start + blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long h = nonce ^ job[0];
    for (int k = 0; k < 256; ++k) {
        h ^= h << 13; h ^= h >> 7; h ^= h << 17; h += job[1 + (k & 1)];
    }
    if (h < job[3]) {
        unsigned int slot = atomicAdd(out, 1u);
        if (slot < 4u) out[1 + slot] = (unsigned int)(nonce - start);
    }
}
"""


@dataclass(frozen=True)
class Job:
    words: tuple
    start: int


class Lane:
    """A stream with its own result and job buffers."""

    def __init__(self):
        self.stream = drv.Stream()
        self.host_out = drv.pagelocked_zeros(1 + SEARCH_RESULTS, np.uint32)
        self.host_job = drv.pagelocked_zeros(4, np.uint64)
        self.dev_out = drv.mem_alloc(self.host_out.nbytes)
        self.dev_job = drv.mem_alloc(self.host_job.nbytes)
        self.job = None
        self.base = 0

    def start(self, func, grid, block, job, base):
        self.job, self.base = job, base
        self.host_job[:] = job.words
        drv.memcpy_htod_async(self.dev_job, self.host_job, self.stream)
        drv.memset_d32_async(self.dev_out, 0, 1 + SEARCH_RESULTS, self.stream)
        func(
            self.dev_job,
            np.uint64(base),
            self.dev_out,
            grid=(grid, 1),
            block=(block, 1, 1),
            stream=self.stream,
        )
        drv.memcpy_dtoh_async(self.host_out, self.dev_out, self.stream)

    def collect(self):
        self.stream.synchronize()
        count = min(int(self.host_out[0]), SEARCH_RESULTS)
        return self.job, [self.base + int(x) for x in self.host_out[1 : 1 + count]]


class Miner:
    def __init__(self, lanes=3, grid=1024, block=128):
        self.func = SourceModule(KERNEL).get_function("search")
        self.grid, self.block = grid, block
        self.batch = grid * block
        self.lanes = [Lane() for _ in range(lanes)]

    def run(self, jobs: "queue.Queue", report):
        job = jobs.get()
        nonce = job.start
        for lane in self.lanes:
            lane.start(self.func, self.grid, self.block, job, nonce)
            nonce += self.batch
        done = False
        while not done:
            solutions = []
            for lane in self.lanes:
                solutions.append(lane.collect())
                try:
                    fresh = jobs.get_nowait()
                except queue.Empty:
                    fresh = job
                if fresh is None:
                    done = True
                    break
                if fresh is not job:
                    job, nonce = fresh, fresh.start
                lane.start(self.func, self.grid, self.block, job, nonce)
                nonce += self.batch
            for owner, nonces in solutions:
                for value in nonces:
                    report(owner, value)
        for lane in self.lanes:
            lane.stream.synchronize()


if __name__ == "__main__":
    q = queue.Queue()
    q.put(Job((7, 11, 13, 1 << 40), 0))
    q.put(None)
    Miner().run(q, lambda job, nonce: print(job.start, nonce))
