"""Stream-ordered write-back of evicted embedding rows with a host function."""
import ctypes
import queue

import numpy as np
import torch
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if rest else None


class RowStore:
    """Host side key-value store; put() is called by the flush worker."""

    def __init__(self, dim):
        self.dim = dim
        self.rows = {}

    def put(self, keys, values):
        for k, v in zip(keys, values):
            self.rows[int(k)] = v.copy()


class EvictionSlot:
    def __init__(self, max_rows, dim):
        self.values = torch.empty(max_rows, dim, dtype=torch.float32, pin_memory=True)
        self.keys = torch.empty(max_rows, dtype=torch.int64, pin_memory=True)
        self.count = 0


class EvictionWriter:
    HOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def __init__(self, store, max_rows, dim, device, slots=3):
        self.store = store
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.slots = [EvictionSlot(max_rows, dim) for _ in range(slots)]
        self.free = queue.Queue()
        self.ready = queue.Queue()
        for i in range(slots):
            self.free.put(i)
        self._fn = self.HOST_FN(self._on_copied)
        self._host_fn = cudart.cudaHostFn_t(_ptr=ctypes.addressof(self._fn))

    def _on_copied(self, user_data):
        self.ready.put(int(user_data or 0))

    def evict(self, cache_weights, rows, keys):
        idx = self.free.get()
        slot = self.slots[idx]
        n = rows.numel()
        slot.count = n
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            gathered = cache_weights.index_select(0, rows)
            slot.values[:n].copy_(gathered, non_blocking=True)
            slot.keys[:n].copy_(keys, non_blocking=True)
            rows.record_stream(self.stream)
            keys.record_stream(self.stream)
        check(cudart.cudaLaunchHostFunc(self.stream.cuda_stream, self._host_fn, idx))
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def flush_one(self):
        idx = self.ready.get()
        slot = self.slots[idx]
        self.store.put(slot.keys[: slot.count].numpy(), slot.values[: slot.count].numpy())
        self.free.put(idx)


class CachedTable:
    def __init__(self, num_rows, dim, writer, device):
        self.weights = torch.zeros(num_rows, dim, device=device)
        self.row_key = torch.arange(num_rows, device=device)
        self.writer = writer
        self.device = device
        self.clock = 0

    def insert(self, keys, values):
        n = len(keys)
        rows = (torch.arange(n, device=self.device) + self.clock) % self.weights.shape[0]
        self.clock += n
        self.writer.evict(self.weights, rows, self.row_key[rows])
        self.weights[rows] = values.to(self.device)
        self.row_key[rows] = torch.from_numpy(np.asarray(keys)).to(self.device)
        self.writer.flush_one()


def run(batches, dim=128):
    device = torch.device("cuda", 0)
    writer = EvictionWriter(RowStore(dim), 65536, dim, device)
    table = CachedTable(1 << 20, dim, writer, device)
    for keys, values in batches:
        table.insert(keys, values)
    return writer.store
