"""CPU tier for the paged KV cache: blocks are stored when their request finishes."""
from collections import deque

import torch


class BlockStoreWorker:
    def __init__(self, gpu_kv, num_cpu_blocks):
        self.gpu_kv = gpu_kv
        self.cpu_kv = [
            torch.empty((num_cpu_blocks, *t.shape[1:]), dtype=t.dtype, pin_memory=True)
            for t in gpu_kv
        ]
        self.store_stream = torch.cuda.Stream()
        self._compute_done = torch.cuda.Event()
        self._by_block = {}
        self.inflight = deque()

    def submit(self, pairs):
        self._compute_done.record()
        self.store_stream.wait_event(self._compute_done)
        done = torch.cuda.Event()
        with torch.cuda.stream(self.store_stream):
            for src, dst in pairs:
                for g, c in zip(self.gpu_kv, self.cpu_kv):
                    c[dst].copy_(g[src], non_blocking=True)
            done.record()
        for src, _ in pairs:
            self._by_block[src] = done
        self.inflight.append((done, [d for _, d in pairs]))

    def claim(self, block):
        done = self._by_block.pop(block, None)
        if done is not None:
            torch.cuda.current_stream().wait_event(done)

    def finished(self):
        ready = []
        while self.inflight and self.inflight[0][0].query():
            ready.extend(self.inflight.popleft()[1])
        return ready


def run(layers=4, blocks=32, steps=200):
    kv = [torch.zeros(blocks, 16, 128, device="cuda", dtype=torch.float16) for _ in range(layers)]
    w = torch.randn(128, 128, device="cuda", dtype=torch.float16)
    worker = BlockStoreWorker(kv, steps)
    norms = []
    for step in range(steps):
        block = step % blocks
        worker.claim(block)
        hidden = torch.randn(16, 128, device="cuda", dtype=torch.float16)
        for layer in kv:
            hidden = torch.tanh(hidden @ w)
            layer[block].copy_(hidden)
        worker.submit([(block, step)])
        for dst in worker.finished():
            norms.append(float(worker.cpu_kv[0][dst].float().norm()))
    return norms


if __name__ == "__main__":
    print(len(run()))
