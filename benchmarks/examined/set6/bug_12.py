from typing import List

import torch


class AsyncDoubleBufferGroupOffloadHandler:
    """Offloads one flat activation per layer group, reloads them for the backward pass."""

    def __init__(self, num_groups: int, group_numel: int, dtype=torch.bfloat16):
        device = torch.cuda.current_device()
        self.num_groups = num_groups
        self.cpu_groups = [
            torch.empty(group_numel, dtype=dtype, pin_memory=True) for _ in range(num_groups)
        ]
        self.reload_double_buffer = [
            torch.empty(group_numel, dtype=dtype, device=device) for _ in range(2)
        ]
        self.d2h_stream = torch.cuda.Stream()
        self.h2d_stream = torch.cuda.Stream()
        self.reloaded = [torch.cuda.Event() for _ in range(2)]

    def bulk_offload_group(self, group: int, activation: torch.Tensor) -> None:
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            self.cpu_groups[group].copy_(activation.view(-1), non_blocking=True)
        activation.record_stream(self.d2h_stream)

    def synchronize_on_forward_end(self) -> None:
        self.h2d_stream.wait_stream(self.d2h_stream)
        self.h2d_stream.wait_stream(torch.cuda.current_stream())

    def bulk_reload_group(self, group: int) -> None:
        buffer = self.reload_double_buffer[group % 2]
        with torch.cuda.stream(self.h2d_stream):
            buffer.copy_(self.cpu_groups[group], non_blocking=True)
            self.reloaded[group % 2].record(self.h2d_stream)

    def get(self, group: int) -> torch.Tensor:
        torch.cuda.current_stream().wait_event(self.reloaded[group % 2])
        return self.reload_double_buffer[group % 2]

    def on_forward_begin(self) -> None:
        self.d2h_stream.wait_stream(self.h2d_stream)


class OffloadedStack(torch.nn.Module):
    def __init__(self, layers: List[torch.nn.Linear], handler: AsyncDoubleBufferGroupOffloadHandler):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)
        self.handler = handler

    @torch.no_grad()
    def forward_offloaded(self, x: torch.Tensor) -> torch.Tensor:
        self.handler.on_forward_begin()
        self.in_shape = x.shape
        for group, layer in enumerate(self.layers):
            self.handler.bulk_offload_group(group, x.contiguous())
            x = torch.relu(layer(x))
        self.handler.synchronize_on_forward_end()
        return x

    @torch.no_grad()
    def backward_offloaded(self, grad: torch.Tensor) -> torch.Tensor:
        last = len(self.layers) - 1
        self.handler.bulk_reload_group(last)
        for group in range(last, -1, -1):
            if group > 0:
                self.handler.bulk_reload_group(group - 1)
            x = self.handler.get(group).view(self.in_shape)
            layer = self.layers[group]
            grad = grad * (layer(x) > 0)
            layer.weight.grad = grad.flatten(0, -2).t() @ x.flatten(0, -2)
            layer.bias.grad = grad.flatten(0, -2).sum(0)
            grad = grad @ layer.weight
        return grad
