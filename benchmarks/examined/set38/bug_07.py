"""Embedding with a device-side row cache; next batch's rows are brought in while the current one trains."""
import torch
import torch.nn as nn


class CachedEmbedding:
    def __init__(self, num_rows, dim, lines, lr, weight_decay, device):
        self.master = torch.randn(num_rows, dim) * 0.01
        self.device = device
        self.lines = lines
        self.cache = torch.zeros(lines, dim, device=device)
        self.tags = torch.full((lines,), -1, dtype=torch.long)
        self.lr = lr
        self.wd = weight_decay
        self.prefetch_stream = torch.cuda.Stream(device=device)
        self.pending = []
        torch.cuda.synchronize(device)

    def prefetch(self, ids):
        main = torch.cuda.current_stream(self.device)
        slots = ids % self.lines
        miss = self.tags[slots] != ids
        self.tags[slots[miss]] = ids[miss]
        rows = self.master[ids[miss]].pin_memory()
        self.prefetch_stream.wait_stream(main)
        with torch.cuda.stream(self.prefetch_stream):
            slots_dev = slots.pin_memory().to(self.device, non_blocking=True)
            miss_dev = slots[miss].pin_memory().to(self.device, non_blocking=True)
            rows_dev = rows.to(self.device, non_blocking=True)
            self.cache.index_copy_(0, miss_dev, rows_dev)
        slots_dev.record_stream(main)
        self.pending.append(slots_dev)

    def lookup(self):
        torch.cuda.current_stream(self.device).wait_stream(self.prefetch_stream)
        self.active = self.pending.pop(0)
        self.out = self.cache[self.active].requires_grad_(True)
        return self.out

    def apply_grad(self):
        with torch.no_grad():
            self.cache.mul_(1.0 - self.lr * self.wd)
            self.cache.index_add_(0, self.active, self.out.grad, alpha=-self.lr)
        self.out = None


class Tower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, 1))

    def forward(self, e):
        return self.net(e).squeeze(-1)


class Pipeline:
    def __init__(self, emb, model, opt, batches):
        self.emb, self.model, self.opt = emb, model, opt
        self.batches = iter(batches)

    def _next(self):
        ids = next(self.batches, None)
        if ids is not None:
            self.emb.prefetch(ids)
        return ids is not None

    def run(self):
        more = self._next()
        losses = []
        while more:
            e = self.emb.lookup()
            loss = self.model(e).pow(2).mean()
            more = self._next()
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.emb.apply_grad()
            self.opt.step()
            losses.append(loss.detach())
        return torch.stack(losses)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    emb = CachedEmbedding(1_000_000, 128, 1 << 16, lr=0.05, weight_decay=1e-2, device=device)
    model = Tower(128).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = [torch.randint(0, 1_000_000, (32768,)).unique() for _ in range(30)]
    print(Pipeline(emb, model, opt, batches).run().tolist())


if __name__ == "__main__":
    main()
