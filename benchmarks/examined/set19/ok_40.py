"""Saved-tensor offloading with a private pinned pool and event-ordered reuse."""
from collections import defaultdict

import torch
from torch import nn


class PinnedBlock:
    def __init__(self, shape, dtype):
        self.tensor = torch.empty(shape, dtype=dtype, pin_memory=True)
        self.filled = torch.cuda.Event()
        self.drained = None


class PinnedPool:
    """Blocks keyed by shape and dtype; a block carries the event of its last upload."""

    def __init__(self):
        self._free = defaultdict(list)
        self.created = 0

    def acquire(self, shape, dtype):
        free = self._free[(tuple(shape), dtype)]
        if free:
            return free.pop()
        self.created += 1
        return PinnedBlock(shape, dtype)

    def release(self, block):
        self._free[(tuple(block.tensor.shape), block.tensor.dtype)].append(block)


class ActivationOffload:
    def __init__(self, module, min_numel=1 << 18):
        self.pool = PinnedPool()
        self.d2h_stream = torch.cuda.Stream()
        self.min_numel = min_numel
        self.param_ptrs = {p.data_ptr() for p in module.parameters()}

    def pack(self, tensor):
        if (not tensor.is_cuda or tensor.numel() < self.min_numel
                or tensor.data_ptr() in self.param_ptrs):
            return tensor
        block = self.pool.acquire(tensor.shape, tensor.dtype)
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        if block.drained is not None:
            self.d2h_stream.wait_event(block.drained)
        with torch.cuda.stream(self.d2h_stream):
            block.tensor.copy_(tensor, non_blocking=True)
            block.filled.record()
        tensor.record_stream(self.d2h_stream)
        return block

    def unpack(self, saved):
        if isinstance(saved, torch.Tensor):
            return saved
        current = torch.cuda.current_stream()
        current.wait_event(saved.filled)
        restored = torch.empty(saved.tensor.shape, dtype=saved.tensor.dtype, device="cuda")
        restored.copy_(saved.tensor, non_blocking=True)
        saved.drained = torch.cuda.Event()
        saved.drained.record(current)
        self.pool.release(saved)
        return restored

    def __enter__(self):
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)
        self._hooks.__enter__()
        return self

    def __exit__(self, *exc):
        return self._hooks.__exit__(*exc)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*[Residual(1024) for _ in range(6)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    offload = ActivationOffload(model)
    for step in range(10):
        x = torch.randn(2048, 1024, device="cuda")
        with offload:
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(loss.item(), offload.pool.created)


if __name__ == "__main__":
    main()
