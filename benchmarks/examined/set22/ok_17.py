"""Embedding table in host memory with a per-batch device scratch pad and asynchronous write-back."""
import torch
import torch.nn.functional as F
from torch import nn


class ScratchPad:
    def __init__(self, unique, inverse, rows):
        self.unique = unique
        self.inverse = inverse
        self.rows = rows


class PrefetchedEmbedding:
    def __init__(self, num_rows, dim, lr, device):
        self.table = torch.randn(num_rows, dim).mul_(0.01).pin_memory()
        self.dim = dim
        self.lr = lr
        self.device = device
        self.prefetch_stream = torch.cuda.Stream(device)
        self.write_stream = torch.cuda.Stream(device)
        self.prefetched = torch.cuda.Event()
        self.written = torch.cuda.Event()
        self.host_out = None
        self.pad = None

    def prefetch(self, indices):
        unique, inverse = torch.unique(indices, return_inverse=True)
        staged = self.table.index_select(0, unique).pin_memory()
        host_inverse = inverse.pin_memory()
        with torch.cuda.stream(self.prefetch_stream):
            rows = staged.to(self.device, non_blocking=True)
            inv = host_inverse.to(self.device, non_blocking=True)
            self.prefetched.record(self.prefetch_stream)
        self.pad = ScratchPad(unique, inv, rows)

    def take(self):
        compute = torch.cuda.current_stream(self.device)
        compute.wait_event(self.prefetched)
        pad, self.pad = self.pad, None
        pad.rows.record_stream(compute)
        pad.inverse.record_stream(compute)
        pad.rows.requires_grad_(True)
        return pad

    def update(self, pad):
        with torch.no_grad():
            new_rows = pad.rows - self.lr * pad.rows.grad
        self.write_stream.wait_stream(torch.cuda.current_stream(self.device))
        host = torch.empty(new_rows.shape, pin_memory=True)
        with torch.cuda.stream(self.write_stream):
            host.copy_(new_rows, non_blocking=True)
            self.written.record(self.write_stream)
        new_rows.record_stream(self.write_stream)
        self.host_out = (pad.unique, host)

    def commit(self):
        if self.host_out is None:
            return
        self.written.synchronize()
        unique, host = self.host_out
        self.table.index_copy_(0, unique, host)
        self.host_out = None


class Ranker(nn.Module):
    def __init__(self, slots, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(slots * dim, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, pad, batch, slots):
        emb = F.embedding(pad.inverse, pad.rows).view(batch, -1)
        return self.mlp(emb).squeeze(-1)


def train(batches, num_rows, dim, slots, device="cuda:0"):
    device = torch.device(device)
    table = PrefetchedEmbedding(num_rows, dim, 0.05, device)
    model = Ranker(slots, dim).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.01)
    it = iter(batches)
    current = next(it, None)
    while current is not None:
        indices, labels = current
        table.commit()
        table.prefetch(indices.view(-1))
        target = labels.pin_memory().to(device, non_blocking=True).float()
        pad = table.take()
        loss = F.binary_cross_entropy_with_logits(model(pad, labels.numel(), slots), target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        table.update(pad)
        current = next(it, None)
    table.commit()
    return table.table
