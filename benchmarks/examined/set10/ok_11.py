from collections import deque

import numpy as np
from numba import cuda

NUM_BUFFERS = 2
MAX_RESULTS = 63


@cuda.jit
def ethash_search(results, header, dag, dag_size, start_nonce, target):
    gid = cuda.grid(1)
    nonce = start_nonce + np.uint64(gid)
    mix = nonce ^ header[0]
    for i in range(64):
        mix = (mix * np.uint64(0x100000001B3)) ^ dag[mix % dag_size]
        mix ^= header[i & 3]
    if mix <= target:
        slot = cuda.atomic.add(results, 0, 1) + 1
        if slot <= MAX_RESULTS:
            results[slot] = np.uint32(gid)


class SearchHook:
    def found(self, nonces):
        raise NotImplementedError

    def searched(self, start_nonce, count):
        raise NotImplementedError


class EthashCudaMiner:
    def __init__(self, dag, grid=8192, block=128):
        self.dag = cuda.to_device(dag)
        self.grid, self.block = grid, block
        self.batch_size = grid * block
        self.streams = [cuda.stream() for _ in range(NUM_BUFFERS)]
        self.d_results = [cuda.device_array(MAX_RESULTS + 1, np.uint32) for _ in range(NUM_BUFFERS)]
        self.search_buf = [cuda.pinned_array(MAX_RESULTS + 1, np.uint32) for _ in range(NUM_BUFFERS)]
        self.d_zero = cuda.to_device(np.zeros(MAX_RESULTS + 1, np.uint32))
        self.header = cuda.device_array(4, np.uint64)

    def _launch(self, buf, start_nonce, target):
        stream = self.streams[buf]
        self.d_results[buf].copy_to_device(self.d_zero, stream=stream)
        ethash_search[self.grid, self.block, stream](
            self.d_results[buf], self.header, self.dag, self.dag.size, np.uint64(start_nonce), np.uint64(target)
        )
        self.d_results[buf].copy_to_host(self.search_buf[buf], stream=stream)

    def search(self, header, target, hook, start_nonce=0):
        self.header.copy_to_device(np.frombuffer(header, np.uint64))
        cuda.synchronize()
        pending = deque()
        buf = 0
        while True:
            self._launch(buf, start_nonce, target)
            pending.append((start_nonce, buf))
            start_nonce += self.batch_size
            buf = (buf + 1) % NUM_BUFFERS
            if len(pending) < NUM_BUFFERS:
                continue
            base, done = pending.popleft()
            self.streams[done].synchronize()
            results = self.search_buf[done]
            num_found = min(int(results[0]), MAX_RESULTS)
            nonces = [base + int(g) for g in results[1 : num_found + 1]]
            if nonces and hook.found(nonces):
                break
            if hook.searched(base, self.batch_size):
                break
        cuda.synchronize()
