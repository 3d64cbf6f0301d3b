"""Offload of saved activations to pinned host memory between forward and backward."""
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    """Context manager; everything saved for backward inside it is moved to the host."""

    def __init__(self, min_bytes=1 << 16):
        self.min_bytes = min_bytes
        self.d2h = torch.cuda.Stream()
        super().__init__(self._pack, self._unpack)

    def _pack(self, t):
        if not t.is_cuda or t.numel() * t.element_size() < self.min_bytes:
            return t
        self.d2h.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h):
            host = torch.empty(t.shape, dtype=t.dtype, device="cpu", pin_memory=True)
            host.copy_(t, non_blocking=True)
        t.record_stream(self.d2h)
        return host, self.d2h.record_event(), t.device

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        host, copied, device = packed
        torch.cuda.current_stream().wait_event(copied)
        return host.to(device, non_blocking=True)

    def __exit__(self, *exc):
        super().__exit__(*exc)
        torch.cuda.current_stream().wait_stream(self.d2h)


def build(width, depth):
    blocks = []
    for _ in range(depth):
        blocks += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*blocks).cuda()


def train(steps=20, width=2048):
    model = build(width, 8)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    offload = OffloadActivations()
    for step in range(steps):
        x = torch.randn(64, width, device="cuda")
        y = torch.randn(64, width, device="cuda")
        with offload:
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step % 5 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    train()
