"""Saved activations on the CPU, moved by a separate stream during forward and backward."""
import torch
import torch.nn as nn
from torch.autograd.graph import saved_tensors_hooks


class AsyncSaveOnCpu(saved_tensors_hooks):
    """Like save_on_cpu, with the transfers on a copy stream."""

    def __init__(self, copy_stream, min_bytes=1 << 20):
        self.copy = copy_stream
        self.min_bytes = min_bytes

        def pack(tensor):
            nbytes = tensor.numel() * tensor.element_size()
            if not tensor.is_cuda or nbytes < self.min_bytes or isinstance(tensor, nn.Parameter):
                return None, tensor
            self.copy.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.copy):
                host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                host.copy_(tensor, non_blocking=True)
            tensor.record_stream(self.copy)
            return tensor.device, host

        def unpack(packed):
            device, tensor = packed
            if device is None:
                return tensor
            with torch.cuda.stream(self.copy):
                restored = tensor.to(device, non_blocking=True)
            torch.cuda.current_stream().wait_stream(self.copy)
            return restored

        super().__init__(pack, unpack)


class Block(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, dim=2048, hidden=8192, depth=24, classes=1000):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, hidden) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.copy_stream = torch.cuda.Stream()

    def train_step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        with AsyncSaveOnCpu(self.copy_stream):
            loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    torch.manual_seed(0)
    trainer = Trainer(Net().cuda(), lr=1e-4)
    losses = []
    for _ in range(50):
        x = torch.randn(16, 256, 2048, device="cuda")
        y = torch.randint(0, 1000, (16,), device="cuda")
        losses.append(trainer.train_step(x, y))
    print(torch.stack(losses).tolist())


if __name__ == "__main__":
    main()
