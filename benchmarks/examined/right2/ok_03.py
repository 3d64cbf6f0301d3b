import torch
import torch.nn as nn


class HostLink:
    """Moves hidden states between the device and pinned host memory."""

    def __init__(self):
        self.side = torch.cuda.Stream()

    def save(self, hidden: torch.Tensor) -> torch.Tensor:
        host = torch.empty(hidden.shape, dtype=hidden.dtype, pin_memory=True)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            host.copy_(hidden, non_blocking=True)
        hidden.record_stream(self.side)
        return host

    def load(self, host: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        hidden = torch.empty(host.shape, dtype=host.dtype, device="cuda")
        self.side.wait_stream(current)
        with torch.cuda.stream(self.side):
            hidden.copy_(host, non_blocking=True)
        current.wait_stream(self.side)
        return hidden


class HostCheckpoint(torch.autograd.Function):
    """Recompute a block in backward from an input parked on the host."""

    @staticmethod
    def forward(ctx, hidden, block, link):
        ctx.block = block
        ctx.link = link
        ctx.host = link.save(hidden.detach())
        return block(hidden)

    @staticmethod
    def backward(ctx, grad_output):
        hidden = ctx.link.load(ctx.host).requires_grad_()
        ctx.host = None
        with torch.enable_grad():
            output = ctx.block(hidden)
        torch.autograd.backward(output, grad_output)
        return hidden.grad, None, None


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Trunk(nn.Module):
    def __init__(self, vocab: int, dim: int, depth: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)
        self.link = HostLink()

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for block in self.blocks:
            hidden = HostCheckpoint.apply(hidden, block, self.link)
        return self.head(hidden)


def fit(model, loader, optimizer):
    for tokens, targets in loader:
        logits = model(tokens.cuda())
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.cuda().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
