"""Sparse Adam for node embeddings kept in host memory; gradients arrive from the GPU."""
import math

import numpy as np
import torch
from torch import nn


class HostEmbedding(nn.Module):
    def __init__(self, num, dim, device):
        super().__init__()
        self.table = torch.empty(num, dim).uniform_(-0.05, 0.05)
        self.device = device
        self.trace = []

    def forward(self, ids):
        rows = self.table[ids].pin_memory().to(self.device, non_blocking=True)
        rows.requires_grad_(True)
        self.trace.append((ids, rows))
        return rows


class SparseAdam:
    def __init__(self, embeddings, lr=1e-2, betas=(0.9, 0.999), eps=1e-8):
        self.embeddings = embeddings
        self.lr, self.betas, self.eps = lr, betas, eps
        self.state = {}
        for emb in embeddings:
            zeros = np.zeros(emb.table.shape, dtype=np.float32)
            self.state[emb] = {
                "step": np.zeros(len(zeros), dtype=np.int64),
                "mean": zeros, "power": zeros.copy()}

    def _collect(self, emb):
        ids, grads = [], []
        for idx, rows in emb.trace:
            ids.append(idx)
            grads.append(rows.grad)
        emb.trace.clear()
        uniq, inverse = torch.cat(ids).unique(return_inverse=True)
        gpu_inverse = inverse.pin_memory().to(emb.device, non_blocking=True)
        summed = torch.zeros(len(uniq), emb.table.shape[1], device=emb.device)
        summed.index_add_(0, gpu_inverse, torch.cat(grads))
        return uniq, summed

    def _update(self, emb, uniq, grad):
        st = self.state[emb]
        b1, b2 = self.betas
        rows = uniq.numpy()
        g = grad.numpy()
        st["step"][rows] += 1
        st["mean"][rows] = b1 * st["mean"][rows] + (1 - b1) * g
        st["power"][rows] = b2 * st["power"][rows] + (1 - b2) * g * g
        step = st["step"][rows][:, None]
        mean = st["mean"][rows] / (1 - b1 ** step)
        power = st["power"][rows] / (1 - b2 ** step)
        delta = self.lr * mean / (np.sqrt(power) + self.eps)
        emb.table[uniq] -= torch.from_numpy(delta.astype(np.float32))

    @torch.no_grad()
    def step(self):
        for emb in self.embeddings:
            uniq, summed = self._collect(emb)
            grad = summed.to("cpu", non_blocking=True)
            self._update(emb, uniq, grad)


class LinkModel(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rel = nn.Bilinear(dim, dim, 1)

    def forward(self, head, tail):
        return self.rel(head, tail).squeeze(-1)


def train(edges, num_nodes, dim=128, batch=8192, epochs=1, device="cuda"):
    emb = HostEmbedding(num_nodes, dim, device)
    model = LinkModel(dim).to(device)
    dense = torch.optim.Adam(model.parameters(), lr=1e-3)
    sparse = SparseAdam([emb])
    for _ in range(epochs):
        for start in range(0, math.floor(len(edges) / batch) * batch, batch):
            pair = edges[start:start + batch]
            fake = torch.randint(0, num_nodes, (batch,))
            pos = model(emb(pair[:, 0]), emb(pair[:, 1]))
            neg = model(emb(pair[:, 0]), emb(fake))
            loss = nn.functional.softplus(neg - pos).mean()
            dense.zero_grad(set_to_none=True)
            loss.backward()
            dense.step()
            sparse.step()
    return emb.table
