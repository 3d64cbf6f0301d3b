"""Offloads large saved activations to pinned memory with a bounded number in flight."""
from collections import deque

import torch
from torch import nn


class Parked:
    def __init__(self, host, device):
        self.host = host
        self.device = device


class ActivationOffload(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, module, min_numel=1 << 20, in_flight=2, device="cuda"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.min_numel = min_numel
        self.limit = in_flight
        self.leaving = deque()
        self.weights = {p.untyped_storage().data_ptr() for p in module.parameters()}
        super().__init__(self._pack, self._unpack)

    def _trim(self, keep):
        main = torch.cuda.current_stream(self.device)
        while len(self.leaving) > keep:
            _, gone = self.leaving[0]
            main.wait_event(gone)
            self.leaving.popleft()

    def _pack(self, t):
        if (
            t.device != self.device
            or t.numel() < self.min_numel
            or t.untyped_storage().data_ptr() in self.weights
        ):
            return t
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            host.copy_(t.detach(), non_blocking=True)
            gone = self.stream.record_event()
        self.leaving.append((t.detach(), gone))
        self._trim(self.limit)
        return Parked(host, t.device)

    def _unpack(self, saved):
        if not isinstance(saved, Parked):
            return saved
        out = torch.empty(saved.host.shape, dtype=saved.host.dtype, device=saved.device)
        main = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            out.copy_(saved.host, non_blocking=True)
        main.wait_stream(self.stream)
        return out

    def __exit__(self, *exc):
        self._trim(0)
        return super().__exit__(*exc)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def train(steps=10, width=1024, depth=12, tokens=8192, device="cuda:0"):
    torch.cuda.set_device(device)
    net = nn.Sequential(*[Block(width) for _ in range(depth)]).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
    offload = ActivationOffload(net, device=device)
    losses = []
    for _ in range(steps):
        x = torch.randn(tokens, width, device=device)
        with offload:
            loss = (net(x) - x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


if __name__ == "__main__":
    print(train())
