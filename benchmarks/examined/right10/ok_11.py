"""Offload saved activations to pinned memory during forward and bring them back in backward."""
from collections import deque
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Parked:
    host: torch.Tensor
    done: torch.cuda.Event
    device: torch.device


class ParkActivations(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, min_bytes: int = 1 << 16, window: int = 4):
        self.min_bytes = min_bytes
        self.window = window
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()
        self.stash: deque = deque()
        super().__init__(self._pack, self._unpack)

    def _release(self, keep: int):
        while len(self.stash) > keep:
            event, tensor = self.stash.popleft()
            torch.cuda.current_stream().wait_event(event)
            del tensor

    def _pack(self, t: torch.Tensor):
        if not t.is_cuda or isinstance(t, nn.Parameter) or t.numel() * t.element_size() < self.min_bytes:
            return t
        self._release(self.window - 1)
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.d2h.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h):
            host.copy_(t, non_blocking=True)
        done = self.d2h.record_event()
        self.stash.append((done, t))
        return Parked(host, done, t.device)

    def _unpack(self, packed):
        if not isinstance(packed, Parked):
            return packed
        self._release(0)
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.h2d):
            self.h2d.wait_event(packed.done)
            out = packed.host.to(packed.device, non_blocking=True)
        current.wait_stream(self.h2d)
        out.record_stream(current)
        return out

    def __exit__(self, *exc):
        self._release(0)
        return super().__exit__(*exc)


def main():
    net = nn.Sequential(*[m for _ in range(12) for m in (nn.Linear(2048, 2048), nn.GELU())]).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    park = ParkActivations()
    for step in range(20):
        x = torch.randn(512, 2048, device="cuda")
        with park:
            loss = net(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step % 5 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
