"""Speculative proposer: the backup token of every request is uploaded each step."""
import numpy as np
import torch
from torch import nn


class AlternatingBuffer:
    """Two page-locked halves in front of one device tensor; steps take turns."""

    def __init__(self, size, dtype, device):
        self.halves = [torch.zeros(size, dtype=dtype, pin_memory=True) for _ in range(2)]
        self.views = [half.numpy() for half in self.halves]
        self.gpu = torch.zeros(size, dtype=dtype, device=device)
        self.turn = 0

    @property
    def np(self):
        return self.views[self.turn]

    def copy_to_gpu(self, n):
        self.gpu[:n].copy_(self.halves[self.turn][:n], non_blocking=True)
        self.turn ^= 1
        return self.gpu[:n]


class RequestTable:
    def __init__(self, prompts):
        self.tokens = [list(p) for p in prompts]

    def backup(self, lengths):
        return [row[min(n, len(row) - 1)] for row, n in zip(self.tokens, lengths)]


class Proposer(nn.Module):
    def __init__(self, vocab, width, depth, device, max_batch=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, vocab, bias=False)
        self.to(device)
        self.backup_ids = AlternatingBuffer(max_batch, torch.int64, device)
        self.lengths = AlternatingBuffer(max_batch, torch.int64, device)

    def prepare(self, table, lengths):
        n = len(lengths)
        self.backup_ids.np[:n] = table.backup(lengths)
        self.lengths.np[:n] = lengths
        return self.backup_ids.copy_to_gpu(n), self.lengths.copy_to_gpu(n)

    def forward(self, sampled, valid, backup, lengths):
        ids = torch.where(valid, sampled, backup)
        h = self.embed(ids) + lengths.unsqueeze(-1).to(self.embed.weight.dtype) * 1e-4
        for layer in self.layers:
            h = h + nn.functional.silu(layer(h))
        return self.head(h).argmax(-1)


class Engine:
    def __init__(self, proposer, target, table):
        self.proposer = proposer
        self.target = target
        self.table = table
        self.lengths = np.array([len(t) for t in table.tokens], dtype=np.int64)

    @torch.inference_mode()
    def run(self, tokens, steps):
        history = []
        for _ in range(steps):
            backup, lengths = self.proposer.prepare(self.table, self.lengths)
            logits = self.target(tokens)
            sampled = logits.argmax(-1)
            valid = logits.amax(-1) > 0
            tokens = self.proposer(sampled, valid, backup, lengths)
            history.append(tokens)
            self.lengths += 1
        return torch.stack(history)


def main(prompts, steps=64, vocab=32000, width=2048, device="cuda"):
    proposer = Proposer(vocab, width, 4, device)
    target = nn.Sequential(
        nn.Embedding(vocab, width), nn.Linear(width, 4 * width), nn.GELU(),
        nn.Linear(4 * width, vocab)).to(device)
    first = torch.tensor([p[-1] for p in prompts], device=device)
    engine = Engine(proposer, target, RequestTable(prompts))
    return engine.run(first, steps).cpu()


if __name__ == "__main__":
    print(main([[1, 2, 3], [4, 5], [6, 7, 8, 9]]).shape)
