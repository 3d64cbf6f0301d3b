from dataclasses import dataclass
from typing import Dict, Optional

import torch
from torch.autograd.graph import saved_tensors_hooks


class PinnedPool:
    def __init__(self, num_bytes: int):
        self._slab = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
        self._offset = 0

    def alloc(self, like: torch.Tensor) -> Optional[torch.Tensor]:
        nbytes = like.numel() * like.element_size()
        start = -(-self._offset // 256) * 256
        if start + nbytes > self._slab.numel():
            return None
        self._offset = start + nbytes
        return self._slab[start : start + nbytes].view(like.dtype).view(like.shape)

    def reset(self) -> None:
        self._offset = 0


@dataclass
class Offloaded:
    host: torch.Tensor
    device: torch.device
    done: torch.cuda.Event


class ActivationOffloader:
    def __init__(self, pool_bytes: int, min_numel: int = 1 << 16):
        self.pool = PinnedPool(pool_bytes)
        self.min_numel = min_numel
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self._entries: Dict[int, Offloaded] = {}

    def _pack(self, tensor: torch.Tensor):
        if not tensor.is_cuda or isinstance(tensor, torch.nn.Parameter):
            return tensor
        if tensor.numel() < self.min_numel or not tensor.is_contiguous():
            return tensor
        host = self.pool.alloc(tensor)
        if host is None:
            return tensor
        compute_stream = torch.cuda.current_stream()
        with torch.cuda.stream(self.d2h_stream):
            self.d2h_stream.wait_stream(compute_stream)
            host.copy_(tensor, non_blocking=True)
            done = self.d2h_stream.record_event()
        tensor.record_stream(self.d2h_stream)
        key = len(self._entries)
        self._entries[key] = Offloaded(host, tensor.device, done)
        return key

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        entry = self._entries.pop(packed)
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.h2d_stream):
            self.h2d_stream.wait_event(entry.done)
            gpu = torch.empty_like(entry.host, device=entry.device)
            gpu.copy_(entry.host, non_blocking=True)
        compute.wait_stream(self.h2d_stream)
        gpu.record_stream(compute)
        return gpu

    def hooks(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self._pack, self._unpack)

    def step_end(self) -> None:
        self._entries.clear()
        self.pool.reset()


def train(model, loss_fn, optimizer, dataloader, offloader: ActivationOffloader):
    for inputs, targets in dataloader:
        with offloader.hooks():
            loss = loss_fn(model(inputs.cuda()), targets.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        offloader.step_end()
