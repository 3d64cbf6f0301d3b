from collections import deque
from typing import Deque, Dict, List, Tuple

import torch
import torch.nn as nn


class OffloadGroup:
    def __init__(self, index: int):
        self.index = index
        self.device_tensors: List[torch.Tensor] = []
        self.host_tensors: List[torch.Tensor] = []
        self.offload_event = torch.cuda.Event()
        self.reload_event = torch.cuda.Event()
        self.reloaded: List[torch.Tensor] = []


class PinnedPool:
    def __init__(self):
        self.free: Dict[Tuple, List[torch.Tensor]] = {}

    def get(self, like: torch.Tensor) -> torch.Tensor:
        bucket = self.free.setdefault((tuple(like.shape), like.dtype), [])
        return bucket.pop() if bucket else torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

    def put(self, tensor: torch.Tensor) -> None:
        self.free.setdefault((tuple(tensor.shape), tensor.dtype), []).append(tensor)


class FineGrainedOffloader:
    """Offloads activations group by group with a bound on the groups in flight."""

    def __init__(self, max_inflight: int = 2):
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self.max_inflight = max_inflight
        self.pending: Deque[OffloadGroup] = deque()
        self.pool = PinnedPool()

    def offload(self, group: OffloadGroup) -> None:
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            for t in group.device_tensors:
                host = self.pool.get(t)
                host.copy_(t, non_blocking=True)
                group.host_tensors.append(host)
            group.offload_event.record(self.d2h_stream)
        self.pending.append(group)
        while len(self.pending) > self.max_inflight:
            self._release(self.pending.popleft())

    def _release(self, group: OffloadGroup) -> None:
        torch.cuda.current_stream().wait_event(group.offload_event)
        group.device_tensors.clear()

    def drain(self) -> None:
        while self.pending:
            self._release(self.pending.popleft())

    def reload(self, group: OffloadGroup) -> None:
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.h2d_stream):
            self.h2d_stream.wait_event(group.offload_event)
            for host in group.host_tensors:
                device = torch.empty(host.shape, dtype=host.dtype, device="cuda")
                device.copy_(host, non_blocking=True)
                device.record_stream(compute)
                group.reloaded.append(device)
            group.reload_event.record(self.h2d_stream)

    def take(self, group: OffloadGroup) -> List[torch.Tensor]:
        torch.cuda.current_stream().wait_event(group.reload_event)
        tensors, group.reloaded = group.reloaded, []
        return tensors

    def recycle(self, groups: List[OffloadGroup]) -> None:
        for group in groups:
            group.reload_event.synchronize()
            for host in group.host_tensors:
                self.pool.put(host)
            group.host_tensors.clear()


class ManualMLP:
    def __init__(self, dim: int, depth: int):
        self.weights = [torch.randn(dim, dim, device="cuda") / dim ** 0.5 for _ in range(depth)]
        self.offloader = FineGrainedOffloader()

    @torch.no_grad()
    def step(self, x: torch.Tensor, lr: float) -> torch.Tensor:
        groups = []
        for i, w in enumerate(self.weights):
            y = torch.tanh(x @ w)
            group = OffloadGroup(i)
            group.device_tensors = [x, y]
            groups.append(group)
            x = y
            del y
            self.offloader.offload(group)
        self.offloader.drain()
        loss = x.square().mean()
        grad = 2.0 * x / x.numel()
        self.offloader.reload(groups[-1])
        for i in reversed(range(len(groups))):
            if i > 0:
                self.offloader.reload(groups[i - 1])
            inp, out = self.offloader.take(groups[i])
            grad = grad * (1 - out.square())
            grad_w = inp.t() @ grad
            grad = grad @ self.weights[i].t()
            self.weights[i].sub_(grad_w, alpha=lr)
        self.offloader.recycle(groups)
        return loss


def train(steps: int = 50, dim: int = 2048, depth: int = 16) -> float:
    model = ManualMLP(dim, depth)
    losses = [model.step(torch.randn(4096, dim, device="cuda"), 1e-3) for _ in range(steps)]
    return torch.stack(losses).mean().item()
