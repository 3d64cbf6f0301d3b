"""Activation offloading through saved-tensor hooks."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class HostActivation:
    data: torch.Tensor
    copied: torch.cuda.Event
    device: torch.device


class OffloadSaved(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, min_numel=4096):
        self.min_numel = min_numel
        self.d2h = torch.cuda.Stream()
        super().__init__(self._pack, self._unpack)

    def _pack(self, tensor):
        if not tensor.is_cuda or tensor.numel() < self.min_numel:
            return tensor
        self.d2h.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h):
            host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(self.d2h)
        return HostActivation(host, self.d2h.record_event(), tensor.device)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        torch.cuda.current_stream().wait_event(packed.copied)
        return packed.data.to(packed.device, non_blocking=True)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(x)))


def main():
    model = nn.Sequential(*[Block(1024) for _ in range(12)]).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    offload = OffloadSaved()
    for _ in range(50):
        x = torch.randn(16, 256, 1024, device="cuda")
        with offload:
            loss = model(x).float().pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()


if __name__ == "__main__":
    main()
