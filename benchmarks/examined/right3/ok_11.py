"""Activation offloading with saved-tensor hooks."""
from collections import deque
from typing import NamedTuple

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class Offloaded(NamedTuple):
    host: torch.Tensor
    event: torch.cuda.Event
    device: torch.device


class ActivationOffload(saved_tensors_hooks):
    def __init__(self, min_bytes: int = 1 << 20, max_stash: int = 3):
        self.min_bytes = min_bytes
        self.max_stash = max_stash
        self.d2h_stream = torch.cuda.Stream()
        self.stash: deque[tuple[torch.cuda.Event, torch.Tensor]] = deque()
        super().__init__(self._pack, self._unpack)

    def _pack(self, t: torch.Tensor):
        if not t.is_cuda or isinstance(t, nn.Parameter):
            return t
        if t.numel() * t.element_size() < self.min_bytes:
            return t
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            host.copy_(t.detach(), non_blocking=True)
            event = self.d2h_stream.record_event()
        self.stash.append((event, t.detach()))
        self._trim(self.max_stash)
        return Offloaded(host, event, t.device)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        torch.cuda.current_stream(packed.device).wait_event(packed.event)
        return packed.host.to(packed.device, non_blocking=True)

    def _trim(self, keep: int) -> None:
        while len(self.stash) > keep:
            event, tensor = self.stash.popleft()
            torch.cuda.current_stream().wait_event(event)
            del tensor

    def __exit__(self, *exc):
        self._trim(0)
        return super().__exit__(*exc)


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        return x + self.ff(self.norm(x))


def main():
    model = nn.Sequential(*[Block(1024) for _ in range(8)]).cuda()
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4)
    offload = ActivationOffload()
    for _ in range(10):
        x = torch.randn(8, 512, 1024, device="cuda")
        with offload:
            loss = model(x).square().mean()
        loss.backward()
        optim.step()
        optim.zero_grad(set_to_none=True)
    print(loss.item())


if __name__ == "__main__":
    main()
