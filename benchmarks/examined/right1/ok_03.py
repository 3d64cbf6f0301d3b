"""Activation offloading through saved tensor hooks with a short stash of in-flight sources."""
from collections import deque

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    def __init__(self, min_bytes=1 << 20, max_in_flight=3):
        self.min_bytes = min_bytes
        self.max_in_flight = max_in_flight
        self.side = torch.cuda.Stream()
        self.in_flight = deque()
        super().__init__(self._pack, self._unpack)

    def _eligible(self, t):
        return (
            t.is_cuda
            and not isinstance(t, nn.Parameter)
            and t.numel() * t.element_size() >= self.min_bytes
        )

    def _retire(self, limit):
        stream = torch.cuda.current_stream()
        while len(self.in_flight) > limit:
            copied, source = self.in_flight.popleft()
            stream.wait_event(copied)
            del source

    def _pack(self, t):
        if not self._eligible(t):
            return t
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            host.copy_(t.detach(), non_blocking=True)
            copied = self.side.record_event()
        self.in_flight.append((copied, t))
        self._retire(self.max_in_flight)
        return t.device, host

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        device, host = packed
        with torch.cuda.stream(self.side):
            restored = host.to(device, non_blocking=True)
        compute = torch.cuda.current_stream()
        compute.wait_stream(self.side)
        restored.record_stream(compute)
        return restored

    def __exit__(self, *exc):
        self._retire(0)
        return super().__exit__(*exc)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main(steps=20):
    model = nn.Sequential(*[Block(1024) for _ in range(12)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    hooks = OffloadActivations()
    for step in range(steps):
        x = torch.randn(512, 1024, device="cuda")
        with hooks:
            loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        print(step, loss.item())


if __name__ == "__main__":
    main()
