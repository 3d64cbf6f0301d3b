"""Optimizer-state stashing for embeddings: storages are dropped during the dense backward."""
import torch
import torch.nn as nn


class StateStash:
    """Moves tensors out and back in place; views and aliases stay valid."""

    def __init__(self):
        self.out_stream = torch.cuda.Stream()
        self.in_stream = torch.cuda.Stream()
        self.records = []

    def add(self, tensor):
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.records.append({"t": tensor, "host": host, "bytes": tensor.untyped_storage().nbytes()})

    def evict(self):
        self.out_stream.wait_stream(torch.cuda.current_stream())
        for r in self.records:
            t = r["t"]
            with torch.cuda.stream(self.out_stream):
                r["host"].copy_(t, non_blocking=True)
            t.record_stream(self.out_stream)
            t.untyped_storage().resize_(0)

    def admit(self):
        for r in self.records:
            r["t"].untyped_storage().resize_(r["bytes"])
        self.in_stream.wait_stream(torch.cuda.current_stream())
        self.in_stream.wait_stream(self.out_stream)
        with torch.cuda.stream(self.in_stream):
            for r in self.records:
                r["t"].copy_(r["host"], non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.in_stream)


class AdagradTables:
    def __init__(self, features, rows, dim, lr=0.05):
        self.weights = [torch.randn(rows, dim, device="cuda") * 0.02 for _ in range(features)]
        self.sums = [torch.zeros(rows, dim, device="cuda") for _ in range(features)]
        self.lr = lr

    def pooled(self, ids):
        return torch.cat([w[ids[:, f]] for f, w in enumerate(self.weights)], dim=1)

    def apply(self, ids, grad):
        for f, g in enumerate(grad.chunk(len(self.weights), dim=1)):
            rows = ids[:, f]
            self.sums[f].index_add_(0, rows, g.square())
            scale = self.sums[f][rows].sqrt().add_(1e-6)
            self.weights[f].index_add_(0, rows, g / scale, alpha=-self.lr)


class Ranker(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.tower = nn.Sequential(
            nn.Linear(width, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1)
        )

    def forward(self, emb):
        return self.tower(emb).squeeze(1)


class Loop:
    def __init__(self, features=6, rows=500_000, dim=128):
        self.rows, self.features = rows, features
        self.tables = AdagradTables(features, rows, dim)
        self.ranker = Ranker(features * dim).cuda()
        self.opt = torch.optim.Adam(self.ranker.parameters(), lr=1e-4)
        self.stash = StateStash()
        for s in self.tables.sums:
            self.stash.add(s)

    def step(self, batch=32768):
        ids = torch.randint(self.rows, (batch, self.features), device="cuda")
        label = (ids.sum(dim=1) % 2).float()
        emb = self.tables.pooled(ids).requires_grad_()
        self.stash.evict()
        loss = nn.functional.binary_cross_entropy_with_logits(self.ranker(emb), label)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.stash.admit()
        self.tables.apply(ids, emb.grad)
        return loss.detach()


def main():
    torch.manual_seed(0)
    loop = Loop()
    print([round(loop.step().item(), 4) for _ in range(10)])


if __name__ == "__main__":
    main()
