"""Nonce search over several CUDA streams; the header and the boundary live in constant memory."""
import queue
import struct
from dataclasses import dataclass

import cupy as cp
import numpy as np

MAX_SEARCH_RESULTS = 4

SOURCE = r"""
extern "C" {
__constant__ unsigned long long d_header[4];
__constant__ unsigned long long d_target;

__device__ unsigned long long mix(unsigned long long x) {
    x ^= x >> 33; x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

__global__ void ethash_search(const unsigned long long* dag, unsigned long long dag_items,
                              unsigned long long start, unsigned int* out) {
    unsigned long long nonce = start + blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long h = nonce;
    for (int k = 0; k < 64; ++k) {
        h = mix(h ^ d_header[k & 3] ^ dag[h % dag_items]);
    }
    if (h > d_target) return;
    unsigned int slot = atomicInc(out, 0xffffffff);
    if (slot < 4) out[1 + slot] = (unsigned int)(nonce - start);
}
}
"""


@dataclass
class Work:
    header: bytes
    boundary: int
    start_nonce: int


class CUDAMiner:
    def __init__(self, dag, num_streams=2, grid=2048, block=128):
        self.module = cp.RawModule(code=SOURCE)
        self.search_kernel = self.module.get_function("ethash_search")
        self.d_header = cp.ndarray((4,), cp.uint64, self.module.get_global("d_header"))
        self.d_target = cp.ndarray((1,), cp.uint64, self.module.get_global("d_target"))
        self.dag = cp.asarray(dag)
        self.grid, self.block = grid, block
        self.batch_size = grid * block
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(num_streams)]
        self.results = [cp.zeros(1 + MAX_SEARCH_RESULTS, cp.uint32) for _ in self.streams]
        cp.cuda.Device().synchronize()

    def set_work(self, work, stream):
        header = np.array(struct.unpack("<4Q", work.header), dtype=np.uint64)
        self.d_header.set(header, stream=stream)
        self.d_target.set(np.array([work.boundary], dtype=np.uint64), stream=stream)

    def _launch(self, index, nonce):
        stream = self.streams[index]
        with stream:
            self.results[index].fill(0)
            self.search_kernel(
                (self.grid,),
                (self.block,),
                (self.dag, np.uint64(self.dag.size), np.uint64(nonce), self.results[index]),
            )

    def work_loop(self, jobs: "queue.Queue", submit):
        work = jobs.get()
        self.set_work(work, self.streams[0])
        self.streams[0].synchronize()
        nonce = work.start_nonce
        started = []
        for index in range(len(self.streams)):
            self._launch(index, nonce)
            started.append((work, nonce))
            nonce += self.batch_size
        while work is not None:
            for index, stream in enumerate(self.streams):
                stream.synchronize()
                found = cp.asnumpy(self.results[index], stream=stream)
                owner, base = started[index]
                for k in range(min(int(found[0]), MAX_SEARCH_RESULTS)):
                    submit(owner, base + int(found[1 + k]))
                try:
                    work = jobs.get_nowait()
                except queue.Empty:
                    pass
                else:
                    if work is None:
                        break
                    self.set_work(work, stream)
                    nonce = work.start_nonce
                self._launch(index, nonce)
                started[index] = (work, nonce)
                nonce += self.batch_size
        for stream in self.streams:
            stream.synchronize()
