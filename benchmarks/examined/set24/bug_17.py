import threading
from collections import deque
from queue import Queue

import torch


class BlockAllocator:
    def __init__(self, num_blocks):
        self.free = deque(range(num_blocks))
        self.lock = threading.Lock()

    def allocate(self, n):
        with self.lock:
            return [self.free.popleft() for _ in range(n)]

    def release(self, ids):
        with self.lock:
            self.free.extendleft(reversed(ids))


class TransferEngine(threading.Thread):
    """Moves prefill KV into the decode worker's blocks on its own stream."""

    def __init__(self, src_kv, dst_kv, on_complete):
        super().__init__(daemon=True)
        self.src_kv, self.dst_kv = src_kv, dst_kv
        self.stream = torch.cuda.Stream()
        self.jobs = Queue()
        self.on_complete = on_complete

    def submit(self, request_id, src_ids, dst_ids, ready):
        self.jobs.put((request_id, src_ids, dst_ids, ready))

    def run(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            request_id, src_ids, dst_ids, ready = job
            self.stream.wait_event(ready)
            with torch.cuda.stream(self.stream):
                for layer in range(len(self.src_kv)):
                    for s, d in zip(src_ids, dst_ids):
                        self.dst_kv[layer][d].copy_(self.src_kv[layer][s], non_blocking=True)
            self.stream.synchronize()
            self.on_complete(request_id, dst_ids)


class PrefillWorker:
    def __init__(self, layers, num_blocks, block_size, latent_dim, dst_kv, on_complete, use_mla):
        self.layers = layers
        self.block_size = block_size
        self.kv = [
            torch.zeros((num_blocks, block_size, latent_dim), device="cuda") for _ in layers
        ]
        self.staging = [torch.zeros_like(k) for k in self.kv]
        self.blocks = BlockAllocator(num_blocks)
        self.staging_blocks = BlockAllocator(num_blocks)
        self.use_mla = use_mla
        self.held_staging = {}
        self.done = on_complete
        torch.cuda.synchronize()
        source = self.kv if use_mla else self.staging
        self.transfer = TransferEngine(source, dst_kv, self._finished)
        self.transfer.start()

    def _finished(self, request_id, dst_ids):
        ids = self.held_staging.pop(request_id, None)
        if ids is not None:
            self.staging_blocks.release(ids)
        self.done(request_id, dst_ids)

    @torch.inference_mode()
    def prefill(self, request_id, hidden, dst_ids):
        n = (hidden.shape[0] + self.block_size - 1) // self.block_size
        ids = self.blocks.allocate(n)
        for layer, kv in zip(self.layers, self.kv):
            latent, hidden = layer(hidden)
            for j, block in enumerate(ids):
                rows = latent[j * self.block_size : (j + 1) * self.block_size]
                kv[block, : rows.shape[0]].copy_(rows)
        source_ids = ids
        if not self.use_mla:
            source_ids = self.staging_blocks.allocate(n)
            for kv, stage in zip(self.kv, self.staging):
                stage[source_ids] = kv[ids].transpose(1, 2).reshape_as(kv[ids])
            self.held_staging[request_id] = source_ids
        ready = torch.cuda.Event()
        ready.record()
        self.transfer.submit(request_id, source_ids, dst_ids, ready)
        self.blocks.release(ids)
        return hidden[-1]


def serve(worker, requests, sample):
    first_tokens = {}
    for request_id, hidden, dst_ids in requests:
        last = worker.prefill(request_id, hidden, dst_ids)
        first_tokens[request_id] = sample(last)
    worker.transfer.jobs.put(None)
    worker.transfer.join()
    return first_tokens


def build_mla_worker(layers, dst_kv, on_complete):
    return PrefillWorker(layers, 4096, 64, 576, dst_kv, on_complete, use_mla=True)
