"""Zeroes freshly allocated KV cache blocks (needed by hybrid models)."""
from typing import Dict, List

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def _zero_kv_blocks_kernel(base_addrs, block_ids, words_per_block, BLOCK: tl.constexpr):
    cache = tl.program_id(0)
    slot = tl.program_id(1)
    base = tl.load(base_addrs + cache).to(tl.pointer_type(tl.int32))
    block_id = tl.load(block_ids + slot)
    offsets = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    tl.store(base + block_id * words_per_block + offsets, tl.zeros((BLOCK,), tl.int32), mask=offsets < words_per_block)


class KVBlockZeroer:
    def __init__(self, device: torch.device, max_blocks_per_step: int = 8192):
        self.device = device
        self.max_blocks_per_step = max_blocks_per_step
        self._ids_pinned = torch.empty(max_blocks_per_step, dtype=torch.int64, pin_memory=True)
        self._ids_gpu = torch.empty(max_blocks_per_step, dtype=torch.int64, device=device)
        self._base_addrs = torch.empty(0, dtype=torch.int64, device=device)
        self._words_per_block = 0

    def init_meta(self, kv_caches: Dict[str, torch.Tensor]) -> None:
        addrs = []
        for name, cache in kv_caches.items():
            words = cache.stride(0) * cache.element_size() // 4
            if self._words_per_block not in (0, words):
                raise ValueError(f"layer {name} has another block size")
            self._words_per_block = words
            addrs.append(cache.data_ptr())
        self._base_addrs = torch.tensor(addrs, dtype=torch.int64, device=self.device)

    def zero_block_ids(self, block_ids: List[int]) -> None:
        n = len(block_ids)
        if n == 0 or self._base_addrs.numel() == 0:
            return
        if n > self.max_blocks_per_step:
            raise ValueError("too many new blocks in one step")
        self._ids_pinned.numpy()[:n] = np.asarray(block_ids, dtype=np.int64)
        ids = self._ids_gpu[:n]
        ids.copy_(self._ids_pinned[:n], non_blocking=True)
        grid = (self._base_addrs.numel(), n, triton.cdiv(self._words_per_block, 1024))
        _zero_kv_blocks_kernel[grid](self._base_addrs, ids, self._words_per_block, BLOCK=1024)


class Worker:
    def __init__(self, model_runner, kv_caches: Dict[str, torch.Tensor], device: torch.device):
        self.model_runner = model_runner
        self.zeroer = KVBlockZeroer(device)
        self.zeroer.init_meta(kv_caches)
        self.outputs: List = []

    def execute_model(self, scheduler_output):
        """Enqueues one step; the engine collects the result of a step while the next one runs."""
        self.zeroer.zero_block_ids(scheduler_output.new_block_ids_to_zero)
        return self.model_runner.execute_async(scheduler_output)

    def run(self, scheduler, depth: int = 2):
        while scheduler.has_requests() or self.outputs:
            if scheduler.has_requests():
                self.outputs.append(self.execute_model(scheduler.schedule()))
            if len(self.outputs) >= depth or not scheduler.has_requests():
                scheduler.update(self.outputs.pop(0).get_output())
