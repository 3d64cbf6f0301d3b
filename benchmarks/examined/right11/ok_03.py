from __future__ import annotations

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    """Moves activations above a size threshold to pinned host memory."""

    def __init__(self, min_bytes: int = 1 << 16) -> None:
        self.min_bytes = min_bytes
        self.side = torch.cuda.Stream()
        self.next_id = 0
        self.tracker: dict[int, torch.Tensor] = {}
        super().__init__(self._pack, self._unpack)

    def _eligible(self, t: torch.Tensor) -> bool:
        if not t.is_cuda or isinstance(t, nn.Parameter):
            return False
        if t._base is not None and isinstance(t._base, nn.Parameter):
            return False
        return t.numel() * t.element_size() >= self.min_bytes

    def _pack(self, t: torch.Tensor):
        if not self._eligible(t):
            return t
        ident = self.next_id
        self.next_id += 1
        compute = torch.cuda.current_stream()
        self.side.wait_stream(compute)
        with torch.cuda.stream(self.side):
            host = torch.empty(t.size(), dtype=t.dtype, pin_memory=True)
            host.copy_(t.detach(), non_blocking=True)
        t.record_stream(self.side)
        self.tracker[ident] = host
        return ident

    def _unpack(self, handle):
        if isinstance(handle, torch.Tensor):
            return handle
        host = self.tracker[handle]
        compute = torch.cuda.current_stream()
        with torch.cuda.stream(self.side):
            back = host.to("cuda", non_blocking=True)
        compute.wait_stream(self.side)
        back.record_stream(compute)
        return back

    def __exit__(self, *args) -> None:
        super().__exit__(*args)

    def reset(self) -> None:
        self.tracker.clear()
        self.next_id = 0


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def train(steps: int = 20) -> None:
    model = nn.Sequential(*[Block(512) for _ in range(6)]).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ctx = OffloadActivations()
    for step in range(steps):
        x = torch.randn(256, 512, device="cuda")
        with ctx:
            loss = model(x).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        ctx.reset()
        if step % 5 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    train()
