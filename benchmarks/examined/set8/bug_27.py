import threading

import torch


class DescriptorPool:
    """Pinned (src, dst) index buffers for batched block copies."""

    def __init__(self, count, max_ops):
        self._free = [
            (torch.empty(max_ops, dtype=torch.int64, pin_memory=True),
             torch.empty(max_ops, dtype=torch.int64, pin_memory=True))
            for _ in range(count)
        ]
        self._lock = threading.Lock()

    def acquire(self):
        with self._lock:
            return self._free.pop()

    def release(self, bufs):
        with self._lock:
            self._free.append(bufs)


class EncoderCacheWorker:

    def __init__(self, gpu_cache, num_cpu_blocks, max_ops=4096):
        self.gpu_cache = gpu_cache
        self.device = gpu_cache.device
        self.cpu_cache = torch.empty((num_cpu_blocks, *gpu_cache.shape[1:]),
                                     dtype=gpu_cache.dtype, pin_memory=True)
        self._load_stream = torch.cuda.Stream(self.device)
        self._buf_pool = DescriptorPool(4, max_ops)
        self._staging = torch.empty((max_ops, *gpu_cache.shape[1:]),
                                    dtype=gpu_cache.dtype, device=self.device)
        self._dst_dev = torch.empty(max_ops, dtype=torch.int64, device=self.device)
        torch.cuda.synchronize(self.device)

    def _swap_in(self, src_ids, dst_ids, n):
        for i, s in enumerate(src_ids[:n].tolist()):
            self._staging[i].copy_(self.cpu_cache[s], non_blocking=True)
        self._dst_dev[:n].copy_(dst_ids[:n], non_blocking=True)
        self.gpu_cache.index_copy_(0, self._dst_dev[:n], self._staging[:n])

    def start_load(self, load_items):
        """load_items: {request id: [(cpu block, gpu block), ...]}"""
        bufs = self._buf_pool.acquire()
        src_ids, dst_ids = bufs
        self._load_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._load_stream):
            op_idx = 0
            for pairs in load_items.values():
                for cpu_block, gpu_block in pairs:
                    src_ids[op_idx] = cpu_block
                    dst_ids[op_idx] = gpu_block
                    op_idx += 1
            try:
                self._swap_in(src_ids, dst_ids, op_idx)
            finally:
                self._buf_pool.release(bufs)

    def wait_for_load(self):
        torch.cuda.current_stream(self.device).wait_stream(self._load_stream)


class EncoderRunner:

    def __init__(self, worker, model):
        self.worker = worker
        self.model = model

    def step(self, scheduled, inputs):
        for group in scheduled:
            self.worker.start_load(group)
        self.worker.wait_for_load()
        return self.model(inputs, self.worker.gpu_cache)
