"""Activation offload with saved-tensor hooks, everything queued on the stream of the forward pass."""
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class HostActivations:
    """Context manager: moves large saved tensors to page-locked memory and brings them back on demand."""

    def __init__(self, min_numel=1 << 16):
        self.min_numel = min_numel
        self.bytes_out = 0
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)

    def _pack(self, tensor):
        if not tensor.is_cuda or tensor.numel() < self.min_numel or isinstance(tensor, nn.Parameter):
            return tensor
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor.detach(), non_blocking=True)
        self.bytes_out += host.numel() * host.element_size()
        return (tensor.device, host)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        device, host = packed
        return host.to(device, non_blocking=True)

    def __enter__(self):
        self._hooks.__enter__()
        return self

    def __exit__(self, *exc):
        return self._hooks.__exit__(*exc)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Trainer:
    def __init__(self, dim=1024, depth=12):
        self.model = nn.Sequential(*[Block(dim) for _ in range(depth)]).cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.offload = HostActivations()

    def step(self, x):
        with self.offload:
            loss = self.model(x).square().mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main():
    trainer = Trainer()
    total = torch.zeros((), device="cuda")
    for _ in range(20):
        total += trainer.step(torch.randn(64, 128, 1024, device="cuda"))
    print(total.item(), trainer.offload.bytes_out)


if __name__ == "__main__":
    main()
