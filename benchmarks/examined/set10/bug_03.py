import threading

import torch


class GPUCacheContext:
    """Per-instance GPU state of the multiprocess cache server."""

    def __init__(self, kv_caches, max_block_ids=4096, device="cuda:0"):
        self.device = torch.device(device)
        self.kv_caches = kv_caches
        self.stream = torch.cuda.Stream(device=self.device)
        self.high_priority_stream = torch.cuda.Stream(device=self.device, priority=-1)
        self.block_ids_buffer = torch.empty(max_block_ids, dtype=torch.int64, device=self.device)
        self.block_ids_host = torch.empty(max_block_ids, dtype=torch.int64, pin_memory=True)

    def stage_block_ids(self, block_ids):
        n = len(block_ids)
        if n > self.block_ids_host.numel():
            raise ValueError(f"stage_block_ids: {n} block_ids exceeds max {self.block_ids_host.numel()}")
        self.block_ids_host[:n] = torch.as_tensor(block_ids, dtype=torch.int64)
        dst = self.block_ids_buffer[:n]
        with torch.cuda.stream(self.stream):
            dst.copy_(self.block_ids_host[:n], non_blocking=True)
        return dst


class MPCacheEngine:
    def __init__(self):
        self.gpu_contexts = {}
        self.objects = {}
        self.lock = threading.Lock()

    def register_kv_cache(self, instance_id, kv_caches):
        self.gpu_contexts[instance_id] = GPUCacheContext(kv_caches)

    def store(self, key, instance_id, block_ids, event):
        ctx = self.gpu_contexts[instance_id]
        with self.lock, torch.cuda.device(ctx.device), torch.cuda.stream(ctx.stream):
            ctx.stream.wait_event(event)
            ids = ctx.stage_block_ids(block_ids)
            layers = []
            for layer in ctx.kv_caches:
                out = torch.empty((len(block_ids), *layer.shape[1:]), dtype=layer.dtype, pin_memory=True)
                out.copy_(layer.index_select(0, ids), non_blocking=True)
                layers.append(out)
            ctx.stream.synchronize()
            self.objects[key] = layers
        return True

    def retrieve(self, key, instance_id, block_ids, event):
        ctx = self.gpu_contexts[instance_id]
        with (
            self.lock,
            torch.cuda.device(ctx.device),
            torch.cuda.stream(ctx.high_priority_stream),
        ):
            layers = self.objects.get(key)
            if layers is None:
                return False
            ctx.high_priority_stream.wait_event(event)
            ids = ctx.stage_block_ids(block_ids)
            for layer, chunk in zip(ctx.kv_caches, layers):
                staged = chunk.to(ctx.device, non_blocking=True)
                layer.index_copy_(0, ids, staged)
            ctx.high_priority_stream.synchronize()
        return True
