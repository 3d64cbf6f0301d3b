"""Sparse attention masks rebuilt on the host each step in ordinary (unpinned) arrays."""
import numpy as np
import torch
import torch.nn as nn

BLOCK = 64


class MaskPlanner:
    """Rewrites the same arrays in place for each request."""

    def __init__(self, max_blocks, keep):
        self.keep = keep
        self.index = np.zeros((max_blocks, keep), dtype=np.int64)
        self.valid = np.zeros((max_blocks, keep), dtype=np.bool_)
        self.rng = np.random.default_rng(5)

    def plan(self, n_blocks):
        self.index[:n_blocks] = 0
        self.valid[:n_blocks] = False
        for b in range(n_blocks):
            k = min(self.keep, b + 1)
            picks = self.rng.choice(b + 1, size=k, replace=False)
            self.index[b, :k] = picks
            self.valid[b, :k] = True
        return self.index[:n_blocks], self.valid[:n_blocks]


class BlockAttention(nn.Module):
    def __init__(self, dim, keep):
        super().__init__()
        self.keep = keep
        self.qkv = nn.Linear(dim, 3 * dim)
        self.scale = dim ** -0.5

    def forward(self, x, index, valid):
        n = index.shape[0]
        q, k, v = self.qkv(x).view(n, BLOCK, -1).chunk(3, dim=-1)
        kk = k[index].flatten(1, 2)
        vv = v[index].flatten(1, 2)
        att = torch.einsum("nqd,nkd->nqk", q, kk) * self.scale
        drop = ~valid.repeat_interleave(BLOCK, dim=1)
        att = att.masked_fill(drop[:, None, :], float("-inf")).softmax(dim=-1)
        return torch.einsum("nqk,nkd->nqd", att, vv).reshape(n * BLOCK, -1)


class Runner:
    def __init__(self, dim=256, keep=4, max_blocks=128):
        self.attn = BlockAttention(dim, keep).cuda().eval()
        self.planner = MaskPlanner(max_blocks, keep)
        self.index = torch.zeros(max_blocks, keep, dtype=torch.long, device="cuda")
        self.valid = torch.zeros(max_blocks, keep, dtype=torch.bool, device="cuda")

    @torch.no_grad()
    def step(self, x):
        n = x.shape[0] // BLOCK
        index, valid = self.planner.plan(n)
        self.index[:n].copy_(torch.from_numpy(index), non_blocking=True)
        self.valid[:n].copy_(torch.from_numpy(valid), non_blocking=True)
        return self.attn(x, self.index[:n], self.valid[:n])


def main():
    torch.manual_seed(0)
    runner = Runner()
    norms = []
    for i in range(50):
        x = torch.randn(BLOCK * (16 + i % 32), 256, device="cuda")
        norms.append(runner.step(x).norm())
    print(torch.stack(norms).cpu())


if __name__ == "__main__":
    main()
