import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class ActivationOffload(saved_tensors_hooks):
    """Keeps large saved activations in pinned host memory until backward."""

    def __init__(self, stream, min_numel=1 << 16):
        self.stream = stream
        self.min_numel = min_numel
        super().__init__(self.pack, self.unpack)

    def pack(self, t):
        if not t.is_cuda or t.numel() < self.min_numel:
            return t
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(t.device))
        with torch.cuda.stream(self.stream):
            host.copy_(t, non_blocking=True)
        t.record_stream(self.stream)
        return host, t.device

    def unpack(self, packed):
        if torch.is_tensor(packed):
            return packed
        host, device = packed
        with torch.cuda.stream(self.stream):
            out = host.to(device, non_blocking=True)
        current = torch.cuda.current_stream(device)
        current.wait_stream(self.stream)
        out.record_stream(current)
        return out


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(self.norm(x))))


def train(steps=20, dim=1024, depth=12):
    device = torch.device("cuda")
    model = nn.Sequential(*[Block(dim) for _ in range(depth)]).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    stream = torch.cuda.Stream(device)
    for step in range(steps):
        x = torch.randn(256, dim, device=device)
        with ActivationOffload(stream):
            loss = model(x).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    train()
