"""Hidden-state recorder: keeps per-layer activations of selected tokens on the host."""
import argparse
from collections import defaultdict

import torch
import torch.nn as nn


class HostStore:
    def __init__(self):
        self.parts = defaultdict(list)

    def new(self, key, like):
        host = torch.empty(like.shape, dtype=like.dtype, pin_memory=True)
        self.parts[key].append(host)
        return host

    def stack(self, key):
        return torch.cat(self.parts[key], dim=0)


class ActivationRecorder:
    """Registers forward hooks and streams activations to pinned memory."""

    def __init__(self, model, positions, device):
        self.positions = positions
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.store = HostStore()
        self.handles = []
        for name, mod in model.named_modules():
            if isinstance(mod, Block):
                self.handles.append(mod.register_forward_hook(self._hook(name)))

    def _hook(self, name):
        def hook(_module, _inputs, output):
            self._save(name, output.detach())
        return hook

    def _save(self, name, hidden):
        picked = hidden[:, self.positions].float().contiguous()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        host = self.store.new(name, picked)
        with torch.cuda.stream(self.stream):
            host.copy_(picked, non_blocking=True)
        hidden.record_stream(self.stream)

    def close(self):
        for h in self.handles:
            h.remove()
        self.stream.synchronize()
        return {k: self.store.stack(k) for k in self.store.parts}


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        y = self.n1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class Encoder(nn.Module):
    def __init__(self, vocab, dim, heads, depth):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.emb(ids)
        for blk in self.blocks:
            x = blk(x)
        return self.norm(x)


@torch.no_grad()
def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batches", type=int, default=32)
    ap.add_argument("--depth", type=int, default=12)
    args = ap.parse_args()
    device = torch.device("cuda:0")
    model = Encoder(32000, 1024, 16, args.depth).to(device).half().eval()
    positions = torch.arange(0, 512, 2, device=device)
    rec = ActivationRecorder(model, positions, device)
    for b in range(args.batches):
        ids = torch.randint(0, 32000, (16, 512), device=device)
        model(ids)
    acts = rec.close()
    for name, t in list(acts.items())[:3]:
        print(name, tuple(t.shape), float(t.mean()), float(t.std()))


if __name__ == "__main__":
    main()
