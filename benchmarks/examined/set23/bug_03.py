"""Dense KV offload: a background executor packs pages and stores them on the host."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch


class BlockGPUConnector:
    def __init__(self, kv_caches, block_size):
        self.kv_caches = kv_caches
        self.block_size = block_size
        self._local = threading.local()

    @property
    def pack_stream(self):
        if not hasattr(self._local, "stream"):
            self._local.stream = torch.cuda.Stream(device=self.kv_caches[0].device)
        return self._local.stream

    def pack(self, block_ids):
        host_ids = torch.tensor(block_ids).pin_memory()
        with torch.cuda.stream(self.pack_stream):
            ids = host_ids.to(self.kv_caches[0].device, non_blocking=True)
            packed = torch.stack([cache[ids] for cache in self.kv_caches])
            host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
            host.copy_(packed, non_blocking=True)
        self.pack_stream.synchronize()
        return host


class OffloadEngine:
    def __init__(self, connector):
        self.connector = connector
        self.backend = {}

    def store(self, request_id, block_ids):
        self.backend[request_id] = self.connector.pack(block_ids)
        return request_id


class OffloadWorker:
    def __init__(self, engine, max_workers=2):
        self.engine = engine
        self.executor = ThreadPoolExecutor(max_workers=max_workers, thread_name_prefix="kv-save")
        self.pending = {}

    def save_step(self, metadata):
        for request_id, block_ids in metadata:
            self.pending[request_id] = self.executor.submit(self.engine.store, request_id, block_ids)

    def get_finished(self):
        done = [rid for rid, future in self.pending.items() if future.done()]
        for rid in done:
            self.pending.pop(rid).result()
        return done


class ModelRunner:
    def __init__(self, num_layers, num_blocks, block_size, dim):
        shape = (num_blocks, block_size, dim)
        self.kv_caches = [torch.zeros(shape, device="cuda", dtype=torch.half) for _ in range(num_layers)]
        self.proj = torch.randn(dim, dim, device="cuda", dtype=torch.half) / dim ** 0.5
        self.block_size = block_size

    def forward(self, hidden, block_ids):
        for cache in self.kv_caches:
            hidden = torch.tanh(hidden @ self.proj)
            for i, block in enumerate(block_ids):
                cache[block].copy_(hidden[i * self.block_size:(i + 1) * self.block_size])
        return hidden


def serve(requests=64, blocks_per_request=8, num_blocks=1024, block_size=64, dim=1024):
    runner = ModelRunner(24, num_blocks, block_size, dim)
    worker = OffloadWorker(OffloadEngine(BlockGPUConnector(runner.kv_caches, block_size)))
    free = list(range(num_blocks))
    held = {}
    for request_id in range(requests):
        while len(free) < blocks_per_request:
            for rid in worker.get_finished():
                free.extend(held.pop(rid))
        blocks = [free.pop() for _ in range(blocks_per_request)]
        held[request_id] = blocks
        prompt = torch.randn(blocks_per_request * block_size, dim, device="cuda", dtype=torch.half)
        runner.forward(prompt, blocks)
        worker.save_step([(request_id, blocks)])
        for rid in worker.get_finished():
            free.extend(held.pop(rid))
    worker.executor.shutdown(wait=True)
    return worker.engine.backend


if __name__ == "__main__":
    print(len(serve()))
