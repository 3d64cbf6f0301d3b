from collections import OrderedDict

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    """Keep large saved activations in pinned host memory between forward and backward."""

    def __init__(self, min_bytes: int = 1 << 20, max_stash: int = 4):
        self.min_bytes = min_bytes
        self.max_stash = max_stash
        self.d2h = torch.cuda.Stream()
        self.stash: "OrderedDict[int, tuple]" = OrderedDict()
        self.next_id = 0
        super().__init__(self._pack, self._unpack)

    def _evict(self, compute):
        while len(self.stash) >= self.max_stash:
            _, (tensor, done) = self.stash.popitem(last=False)
            compute.wait_event(done)
            del tensor

    def _pack(self, x):
        if not x.is_cuda or isinstance(x, nn.Parameter) or x.numel() * x.element_size() < self.min_bytes:
            return x
        compute = torch.cuda.current_stream()
        self._evict(compute)
        self.d2h.wait_stream(compute)
        with torch.cuda.stream(self.d2h):
            host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
            host.copy_(x, non_blocking=True)
            done = self.d2h.record_event()
        tid, self.next_id = self.next_id, self.next_id + 1
        self.stash[tid] = (x, done)
        return tid, host, done

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        tid, host, done = packed
        torch.cuda.current_stream().wait_event(done)
        held = self.stash.pop(tid, None)
        if held is not None:
            return held[0]
        return host.to("cuda", non_blocking=True)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(self.norm(x))))


def train(steps: int = 10):
    model = nn.Sequential(*[Block(1024) for _ in range(12)]).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    offload = OffloadActivations()
    for _ in range(steps):
        x = torch.randn(32, 512, 1024, device="cuda")
        with offload:
            loss = model(x).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)


if __name__ == "__main__":
    train()
