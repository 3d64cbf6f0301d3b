"""KV block offload: finished GPU blocks are stored to a pinned CPU pool and reloaded on a prefix hit."""
from collections import deque

import torch


class KVBlockMover:
    def __init__(self, gpu_caches, num_cpu_blocks):
        self.gpu = gpu_caches
        self.cpu = [
            torch.empty((num_cpu_blocks, *c.shape[1:]), dtype=c.dtype, pin_memory=True)
            for c in gpu_caches
        ]
        device = gpu_caches[0].device
        self.device = device
        self.load_stream = torch.cuda.Stream(device)
        self.store_stream = torch.cuda.Stream(device)
        self._compute_done = torch.cuda.Event()
        self._stores = deque()
        self._store_of_block = {}

    def store(self, job, pairs):
        compute = torch.cuda.current_stream(self.device)
        self._compute_done.record(compute)
        self.store_stream.wait_event(self._compute_done)
        with torch.cuda.stream(self.store_stream):
            for gpu_block, cpu_block in pairs:
                for g, c in zip(self.gpu, self.cpu):
                    c[cpu_block].copy_(g[gpu_block], non_blocking=True)
        done = torch.cuda.Event()
        done.record(self.store_stream)
        for gpu_block, cpu_block in pairs:
            self._store_of_block[cpu_block] = done
        self._stores.append((job, done, [g for g, _ in pairs]))

    def load(self, pairs):
        compute = torch.cuda.current_stream(self.device)
        self.load_stream.wait_stream(compute)
        for _, cpu_block in pairs:
            self.load_stream.wait_event(self._store_of_block[cpu_block])
        with torch.cuda.stream(self.load_stream):
            for gpu_block, cpu_block in pairs:
                for g, c in zip(self.gpu, self.cpu):
                    g[gpu_block].copy_(c[cpu_block], non_blocking=True)
        done = torch.cuda.Event()
        done.record(self.load_stream)
        compute.wait_event(done)

    def finished_stores(self):
        freed = []
        while self._stores and self._stores[0][1].query():
            _, _, blocks = self._stores.popleft()
            freed.extend(blocks)
        return freed


class Worker:
    def __init__(self, model, gpu_caches, num_cpu_blocks, free_blocks):
        self.model = model
        self.mover = KVBlockMover(gpu_caches, num_cpu_blocks)
        self.free_blocks = list(free_blocks)

    @torch.inference_mode()
    def step(self, plan):
        if plan.loads:
            self.mover.load(plan.loads)
        hidden = self.model(plan.tokens, self.mover.gpu, plan.slot_mapping)
        if plan.stores:
            self.mover.store(plan.step_id, plan.stores)
        self.free_blocks.extend(self.mover.finished_stores())
        return hidden
