"""Offloads saved activations with a bounded stash of device tensors instead of record_stream."""
import collections

import torch
import torch.nn as nn
from torch.autograd.graph import saved_tensors_hooks


class OffloadActivations(saved_tensors_hooks):
    def __init__(self, offload_stream, max_stash=4, min_bytes=1 << 20):
        self.s1 = offload_stream
        self.min_bytes = min_bytes
        self.max_stash = max_stash
        self.stash = collections.deque()

        def pack(tensor):
            nbytes = tensor.numel() * tensor.element_size()
            if not tensor.is_cuda or isinstance(tensor, nn.Parameter) or nbytes < self.min_bytes:
                return None, tensor
            s0 = torch.cuda.current_stream()
            self._trim(s0, self.max_stash - 1)
            source = tensor.detach()
            host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
            self.s1.wait_stream(s0)
            with torch.cuda.stream(self.s1):
                host.copy_(source, non_blocking=True)
                copied = self.s1.record_event()
            self.stash.append((source, copied))
            return source.device, host

        def unpack(packed):
            device, saved = packed
            if device is None:
                return saved
            s0 = torch.cuda.current_stream()
            self._trim(s0, 0)
            restored = torch.empty(saved.shape, dtype=saved.dtype, device=device)
            self.s1.wait_stream(s0)
            with torch.cuda.stream(self.s1):
                restored.copy_(saved, non_blocking=True)
                loaded = self.s1.record_event()
            s0.wait_event(loaded)
            return restored

        super().__init__(pack, unpack)

    def _trim(self, stream, keep):
        while len(self.stash) > keep:
            source, copied = self.stash.popleft()
            stream.wait_event(copied)
            del source


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


def build(dim=1024, hidden=4096, depth=16, vocab=32000):
    return nn.Sequential(
        nn.Embedding(vocab, dim), *(Mlp(dim, hidden) for _ in range(depth)),
        nn.LayerNorm(dim), nn.Linear(dim, vocab, bias=False),
    )


class Recipe:
    def __init__(self, vocab=32000):
        self.vocab = vocab
        self.model = build(vocab=vocab).cuda().bfloat16()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        self.offload_stream = torch.cuda.Stream()

    def train_step(self, tokens):
        ctx = OffloadActivations(self.offload_stream)
        with ctx:
            logits = self.model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(
                logits.float().reshape(-1, self.vocab), tokens[:, 1:].reshape(-1))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def main():
    torch.manual_seed(0)
    recipe = Recipe()
    losses = []
    for _ in range(20):
        tokens = torch.randint(0, recipe.vocab, (4, 513), device="cuda")
        losses.append(recipe.train_step(tokens))
    print(torch.stack(losses).cpu())


if __name__ == "__main__":
    main()
