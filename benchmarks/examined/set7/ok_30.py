from collections import deque
from typing import Deque, Dict, List, Optional, Tuple

import torch


class PipelineOffloadManager:
    def __init__(self, device: torch.device, max_inflight_offloads: int = 2):
        self.device = device
        self.d2h_stream = torch.cuda.Stream(device)
        self.h2d_stream = torch.cuda.Stream(device)
        self.max_inflight_offloads = max_inflight_offloads
        self.inflight: Deque[Tuple[torch.cuda.Event, List[torch.Tensor]]] = deque()

    def throttle(self, limit: int) -> None:
        while len(self.inflight) > limit:
            event, tensors = self.inflight.popleft()
            torch.cuda.current_stream(self.device).wait_event(event)
            tensors.clear()


class OffloadGroup:
    def __init__(self, mgr: PipelineOffloadManager, name: str):
        self.mgr = mgr
        self.name = name
        self.host: Dict[int, torch.Tensor] = {}
        self.device_tensors: Dict[int, torch.Tensor] = {}
        self.offload_event: Optional[torch.cuda.Event] = None
        self.reload_event: Optional[torch.cuda.Event] = None

    def push(self, tag: int, tensor: torch.Tensor) -> int:
        self.device_tensors[tag] = tensor
        return tag

    def bulk_offload(self) -> None:
        mgr = self.mgr
        mgr.d2h_stream.wait_stream(torch.cuda.current_stream(mgr.device))
        with torch.cuda.stream(mgr.d2h_stream):
            for tag, t in self.device_tensors.items():
                host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
                host.copy_(t, non_blocking=True)
                self.host[tag] = host
            self.offload_event = mgr.d2h_stream.record_event()
        mgr.inflight.append((self.offload_event, list(self.device_tensors.values())))
        self.device_tensors.clear()
        mgr.throttle(mgr.max_inflight_offloads)

    def bulk_reload(self) -> None:
        mgr = self.mgr
        mgr.h2d_stream.wait_event(self.offload_event)
        with torch.cuda.stream(mgr.h2d_stream):
            for tag, host in self.host.items():
                self.device_tensors[tag] = host.to(mgr.device, non_blocking=True)
            self.reload_event = mgr.h2d_stream.record_event()
        self.host.clear()

    def pop(self, tag: int) -> torch.Tensor:
        current = torch.cuda.current_stream(self.mgr.device)
        current.wait_event(self.reload_event)
        tensor = self.device_tensors.pop(tag)
        tensor.record_stream(current)
        return tensor


class OffloadedLayers:
    """Forward saves the inputs of each layer on the host, backward recomputes from them."""

    def __init__(self, layers: torch.nn.ModuleList, device: torch.device):
        self.layers = layers
        self.mgr = PipelineOffloadManager(device)
        self.groups: List[OffloadGroup] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.groups = [OffloadGroup(self.mgr, f"layer_{i}") for i in range(len(self.layers))]
        with torch.no_grad():
            for group, layer in zip(self.groups, self.layers):
                group.push(0, x)
                x = layer(x)
                group.bulk_offload()
        return x

    def backward(self, grad: torch.Tensor) -> torch.Tensor:
        self.mgr.throttle(0)
        self.groups[-1].bulk_reload()
        for i in reversed(range(len(self.layers))):
            x = self.groups[i].pop(0).detach().requires_grad_()
            if i > 0:
                self.groups[i - 1].bulk_reload()
            with torch.enable_grad():
                y = self.layers[i](x)
            torch.autograd.backward(y, grad)
            grad = x.grad
        return grad
