from typing import Optional, Tuple

import torch
import torch.nn as nn


def chunked_selective_log_softmax(hidden: torch.Tensor, lm_head: torch.Tensor, index: torch.Tensor, chunks: int) -> torch.Tensor:
    pieces = []
    for h, idx in zip(hidden.chunk(chunks, dim=0), index.chunk(chunks, dim=0)):
        logits = (h @ lm_head.t()).float()
        picked = torch.gather(logits, -1, idx.unsqueeze(-1)).squeeze(-1)
        pieces.append(picked - torch.logsumexp(logits, dim=-1))
    return torch.cat(pieces, dim=0)


class OffloadPool:
    """Copy streams, one for each device."""

    _streams = {}

    @classmethod
    def stream(cls, device: torch.device) -> torch.cuda.Stream:
        if device not in cls._streams:
            cls._streams[device] = torch.cuda.Stream(device)
        return cls._streams[device]


class Offloaded_Log_Softmax(torch.autograd.Function):
    """Keeps the hidden states in host memory between forward and backward."""

    @staticmethod
    def forward(ctx, hidden_states, lm_head, index, chunks: int):
        detached = hidden_states.detach().contiguous()
        copy_stream = OffloadPool.stream(detached.device)
        pinned = torch.empty(detached.shape, dtype=detached.dtype, pin_memory=True)
        copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copy_stream):
            pinned.copy_(detached, non_blocking=True)
        detached.record_stream(copy_stream)
        with torch.no_grad():
            output = chunked_selective_log_softmax(detached, lm_head, index, chunks)
        ctx.device = detached.device
        ctx.saved_hidden_states = pinned
        ctx.lm_head = lm_head
        ctx.index = index
        ctx.chunks = chunks
        return output

    @staticmethod
    def backward(ctx, grad_output) -> Tuple[Optional[torch.Tensor], ...]:
        hidden = ctx.saved_hidden_states.to(ctx.device, non_blocking=True)
        hidden = hidden.detach().requires_grad_(True)
        with torch.enable_grad():
            output = chunked_selective_log_softmax(hidden, ctx.lm_head, ctx.index, ctx.chunks)
        (grad_hidden,) = torch.autograd.grad(output, hidden, grad_output)
        return grad_hidden, None, None, None


class Policy(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.lm_head = nn.Parameter(torch.randn(vocab, dim) * 0.02, requires_grad=False)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        hidden = self.body(self.embed(ids))
        return Offloaded_Log_Softmax.apply(hidden, self.lm_head, targets, 4)


def train(steps: int = 100, tokens: int = 8192, vocab: int = 32000, dim: int = 2048) -> float:
    policy = Policy(vocab, dim).cuda()
    optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=1e-5)
    losses = []
    for _ in range(steps):
        ids = torch.randint(0, vocab, (tokens,), device="cuda")
        targets = torch.randint(0, vocab, (tokens,), device="cuda")
        advantages = torch.randn(tokens, device="cuda")
        loss = -(policy(ids, targets) * advantages).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()
