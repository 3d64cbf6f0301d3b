"""Swaps KV-cache blocks between device memory and pinned host memory."""
from collections import deque

import torch


class KVSwapper:
    """Used by one scheduler thread, on the stream the model runs on."""

    def __init__(self, gpu_blocks, cpu_blocks, block_shape, dtype=torch.float16, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.gpu = torch.zeros((gpu_blocks, *block_shape), dtype=dtype, device=self.device)
        self.gpu.record_stream(self.stream)
        self.cpu = torch.zeros((cpu_blocks, *block_shape), dtype=dtype, pin_memory=True)
        self.free_gpu = deque(range(gpu_blocks))
        self.free_cpu = deque(range(cpu_blocks))
        self.retiring = {}
        self.arriving = {}
        self.on_gpu = {}
        self.on_cpu = {}

    def _take_gpu(self):
        if not self.free_gpu:
            raise MemoryError("no free device block")
        block = self.free_gpu.popleft()
        event = self.retiring.pop(block, None)
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)
        return block

    def allocate(self, key):
        block = self._take_gpu()
        self.on_gpu[key] = block
        return self.gpu[block]

    def view(self, key):
        event = self.arriving.get(key)
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)
        return self.gpu[self.on_gpu[key]]

    def swap_out(self, key):
        if not self.free_cpu:
            raise MemoryError("no free host block")
        block, slot = self.on_gpu.pop(key), self.free_cpu.popleft()
        self.arriving.pop(key, None)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.cpu[slot].copy_(self.gpu[block], non_blocking=True)
            self.retiring[block] = self.stream.record_event()
        self.free_gpu.append(block)
        self.on_cpu[key] = slot

    def swap_in(self, key):
        if key not in self.on_cpu:
            raise KeyError(key)
        block = self._take_gpu()
        slot = self.on_cpu.pop(key)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.gpu[block].copy_(self.cpu[slot], non_blocking=True)
            self.arriving[key] = self.stream.record_event()
        self.free_cpu.append(slot)
        self.on_gpu[key] = block

    def release(self, key):
        if key in self.on_cpu:
            self.free_cpu.append(self.on_cpu.pop(key))
            return
        block = self.on_gpu.pop(key)
        event = self.arriving.pop(key, None)
        if event is not None:
            self.retiring[block] = event
        self.free_gpu.append(block)


def append_tokens(swapper, key, position, new_kv):
    swapper.view(key)[position:position + new_kv.shape[0]].copy_(new_kv)


def attend(swapper, keys, query):
    kv = torch.stack([swapper.view(k) for k in keys]).flatten(0, 1)
    return torch.softmax(query @ kv.transpose(-1, -2), dim=-1) @ kv
