"""Sparse rows kept in host memory: each step uploads the rows it needs next to the dense compute."""
import numpy as np
import torch


class HostTable:
    """Embedding rows too large for the device, as a plain NumPy array."""

    def __init__(self, rows, dim, seed=0):
        rng = np.random.default_rng(seed)
        self.data = rng.standard_normal((rows, dim), dtype=np.float32) * 0.01

    def gather(self, ids, out):
        np.take(self.data, ids, axis=0, out=out)

    def update(self, ids, values):
        self.data[ids] = values


class RowUploader:
    """Stages rows in page-locked memory that lives for one upload only."""

    def __init__(self, table, device="cuda"):
        self.table = table
        self.dim = table.data.shape[1]
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def upload(self, ids):
        host = torch.empty(len(ids), self.dim, pin_memory=True)
        self.table.gather(ids, host.numpy())
        rows = torch.empty(host.shape, device=self.device)
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            rows.copy_(host, non_blocking=True)
        current.wait_stream(self.stream)
        return rows


class RowModel(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(dim, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)
        )

    def forward(self, rows, bags):
        pooled = torch.zeros(
            int(bags.shape[0]) - 1, rows.shape[1], device=rows.device, dtype=rows.dtype
        )
        counts = bags[1:] - bags[:-1]
        index = torch.repeat_interleave(
            torch.arange(counts.shape[0], device=rows.device),
            counts,
            output_size=rows.shape[0],
        )
        return self.body(pooled.index_add(0, index, rows)).squeeze(-1)


class Trainer:
    def __init__(self, table, device="cuda"):
        self.uploader = RowUploader(table, device)
        self.model = RowModel(table.data.shape[1]).to(device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=0.01)
        self.device = device

    def step(self, ids, bags, target):
        rows = self.uploader.upload(ids)
        logits = self.model(rows, bags.to(self.device))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, target.to(self.device)
        )
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


def main(steps=200, bags=2048, per_bag=16):
    table = HostTable(1_000_000, 128)
    trainer = Trainer(table)
    rng = np.random.default_rng(3)
    losses = []
    offsets = torch.arange(0, bags * per_bag + 1, per_bag)
    for _ in range(steps):
        ids = rng.integers(0, table.data.shape[0], bags * per_bag)
        losses.append(trainer.step(ids, offsets, torch.rand(bags).round()))
    print(torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
