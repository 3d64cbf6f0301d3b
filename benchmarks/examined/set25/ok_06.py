import torch
import torch.nn as nn
from torch.autograd.graph import saved_tensors_hooks


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in pinned host memory between forward and backward."""

    def __init__(self, pin_memory=True):
        def pack_to_cpu(tensor):
            if not tensor.is_cuda or isinstance(tensor, nn.Parameter):
                return None, tensor
            if not pin_memory:
                return tensor.device, tensor.cpu()
            packed = torch.empty(tensor.size(), dtype=tensor.dtype, layout=tensor.layout, pin_memory=True)
            packed.copy_(tensor, non_blocking=True)
            return tensor.device, packed

        def unpack_from_cpu(packed):
            device, tensor = packed
            if device is None:
                return tensor
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack_to_cpu, unpack_from_cpu)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(self.norm(x))))


class OffloadedTrainer:
    def __init__(self, dim=1024, depth=8):
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth)).cuda()
        self.opt = torch.optim.AdamW(self.blocks.parameters(), lr=1e-4)
        self.loss_host = torch.zeros((), pin_memory=True)
        self.loss_ready = None

    def forward(self, x):
        with save_on_cpu(pin_memory=True):
            for block in self.blocks:
                x = block(x)
        return x

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.forward(x), y)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.loss_host.copy_(loss.detach(), non_blocking=True)
        self.loss_ready = torch.cuda.Event()
        self.loss_ready.record()

    def last_loss(self):
        self.loss_ready.synchronize()
        return float(self.loss_host)


def main():
    trainer = OffloadedTrainer()
    for step in range(100):
        x = torch.randn(1024, 1024, device="cuda")
        trainer.step(x, x.roll(1, dims=-1))
        if step % 10 == 0:
            print(step, trainer.last_loss())


if __name__ == "__main__":
    main()
