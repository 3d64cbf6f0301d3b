"""Zero freshly allocated KV cache blocks before a forward pass."""
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def _zero_kv_blocks_kernel(base_ptrs, block_ids, page_elems, BLOCK: tl.constexpr):
    seg = tl.program_id(0)
    b = tl.program_id(1)
    base = tl.load(base_ptrs + seg).to(tl.pointer_type(tl.int32))
    block_id = tl.load(block_ids + b)
    start = block_id * page_elems
    for off in range(0, page_elems, BLOCK):
        idx = off + tl.arange(0, BLOCK)
        tl.store(base + start + idx, tl.zeros([BLOCK], dtype=tl.int32), mask=idx < page_elems)


class KVBlockZeroer:
    def __init__(self, device, max_ids=8192):
        self.device = device
        self.max_ids = max_ids
        self._ids_pinned = torch.empty(max_ids, dtype=torch.int64, pin_memory=True)
        self._ids_np = self._ids_pinned.numpy()
        self._ids_gpu = torch.empty(max_ids, dtype=torch.int64, device=device)
        self._base_ptrs = None
        self._page_elems = 0

    def init_meta(self, kv_caches):
        self._base_ptrs = torch.tensor(
            [c.data_ptr() for c in kv_caches], dtype=torch.int64
        ).to(self.device)
        first = kv_caches[0]
        self._page_elems = first[0].numel() * first.element_size() // 4

    def zero_block_ids(self, block_ids):
        n = len(block_ids)
        if n == 0:
            return
        self._ids_np[:n] = block_ids
        idx = self._ids_gpu[:n]
        idx.copy_(self._ids_pinned[:n], non_blocking=True)
        grid = (self._base_ptrs.numel(), n)
        _zero_kv_blocks_kernel[grid](self._base_ptrs, idx, self._page_elems, BLOCK=1024)


@dataclass
class SchedulerOutput:
    input_ids: torch.Tensor
    slot_mapping: torch.Tensor
    new_block_ids: list


class GPUModelRunner:
    def __init__(self, model, num_layers, num_blocks, block_shape, device):
        self.model = model
        self.device = device
        self.kv_caches = [
            torch.empty(num_blocks, *block_shape, dtype=torch.bfloat16, device=device)
            for _ in range(num_layers)
        ]
        self.zeroer = KVBlockZeroer(device)
        self.zeroer.init_meta(self.kv_caches)

    @torch.inference_mode()
    def execute_model(self, out):
        if out.new_block_ids:
            self.zeroer.zero_block_ids(np.asarray(out.new_block_ids, dtype=np.int64))
        ids = out.input_ids.pin_memory().to(self.device, non_blocking=True)
        slots = out.slot_mapping.pin_memory().to(self.device, non_blocking=True)
        logits = self.model(ids, slots, self.kv_caches)
        return logits.argmax(dim=-1)


class AsyncOutputCopier:
    def __init__(self, device):
        self.stream = torch.cuda.Stream(device=device)

    def start(self, sampled):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host = torch.empty(sampled.shape, dtype=sampled.dtype, pin_memory=True)
            host.copy_(sampled, non_blocking=True)
            sampled.record_stream(self.stream)
            return host, self.stream.record_event()


def async_scheduling_loop(runner, scheduler, depth=2):
    copier = AsyncOutputCopier(runner.device)
    in_flight = deque()
    while scheduler.has_requests() or in_flight:
        if scheduler.has_requests():
            in_flight.append(copier.start(runner.execute_model(scheduler.schedule())))
        if len(in_flight) > depth or not scheduler.has_requests():
            host, event = in_flight.popleft()
            event.synchronize()
            scheduler.update(host.tolist())
