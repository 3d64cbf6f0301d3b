"""Saved-tensor offload to page-locked memory."""
from collections import deque
from typing import Deque, List, Tuple

import torch
import torch.nn as nn


class OffloadContext:
    """Packs large activations to the host and brings them back in backward."""

    def __init__(self, device: torch.device, threshold: int = 1 << 20):
        self.device = device
        self.threshold = threshold
        self.out_stream = torch.cuda.Stream(device)
        self.leaving: Deque[Tuple[torch.cuda.Event, torch.Tensor]] = deque()
        self.packed_bytes = 0

    def _reap(self) -> None:
        while self.leaving and self.leaving[0][0].query():
            self.leaving.popleft()

    def _eligible(self, tensor: torch.Tensor) -> bool:
        return (
            tensor.is_cuda
            and tensor.numel() >= self.threshold
            and tensor.is_contiguous()
            and not isinstance(tensor, nn.Parameter)
        )

    def pack(self, tensor: torch.Tensor):
        if not self._eligible(tensor):
            return tensor
        self._reap()
        source = tensor.detach()
        host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        self.out_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.out_stream):
            host.copy_(source, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self.out_stream)
        self.leaving.append((event, source))
        self.packed_bytes += source.numel() * source.element_size()
        return (host, event)

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        host, event = packed
        torch.cuda.current_stream(self.device).wait_event(event)
        return host.to(self.device, non_blocking=True)

    def hooks(self):
        return torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    def drain(self) -> None:
        self.out_stream.synchronize()
        self._reap()


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def main(steps: int = 50, dim: int = 2048, depth: int = 12) -> None:
    device = torch.device("cuda", 0)
    blocks: List[nn.Module] = [Block(dim) for _ in range(depth)]
    model = nn.Sequential(*blocks).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    offload = OffloadContext(device)
    average = torch.zeros((), device=device)
    for _ in range(steps):
        batch = torch.randn(4096, dim, device=device)
        target = batch.roll(1, 0)
        with offload.hooks():
            loss = (model(batch) - target).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        average.lerp_(loss.detach(), 0.1)
    offload.drain()
    print(average.item(), offload.packed_bytes)


if __name__ == "__main__":
    main()
