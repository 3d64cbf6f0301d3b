"""Sharded table lookups started early for the next batch; module hooks carry the ordering."""
import torch
import torch.nn as nn


class CachedTable(nn.Module):
    def __init__(self, rows, dim, lines, lr):
        super().__init__()
        self.register_buffer("cache", torch.zeros(lines, dim))
        self.host = torch.randn(rows, dim) * 0.01
        self.lines = lines
        self.lr = lr
        self.stream = None
        self.queue = []
        self.register_full_backward_pre_hook(self._before_backward)

    def start(self):
        self.stream = torch.cuda.Stream(device=self.cache.device)
        self.stream.wait_stream(torch.cuda.current_stream())
        return self

    def prefetch(self, ids):
        main = torch.cuda.current_stream()
        rows = self.host[ids].pin_memory()
        slots = (ids % self.lines).pin_memory()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            s = slots.to(self.cache.device, non_blocking=True)
            self.cache.index_copy_(0, s, rows.to(self.cache.device, non_blocking=True))
            loaded = self.stream.record_event()
        s.record_stream(main)
        self.queue.append((s, loaded))

    def _before_backward(self, module, grad_output):
        for _, loaded in self.queue:
            torch.cuda.current_stream().wait_event(loaded)
        with torch.no_grad():
            self.cache.index_add_(0, self.active, grad_output[0], alpha=-self.lr)

    def forward(self, bias):
        self.active, loaded = self.queue.pop(0)
        torch.cuda.current_stream().wait_event(loaded)
        return self.cache[self.active] + bias


class Ranker(nn.Module):
    def __init__(self, table, dim):
        super().__init__()
        self.table = table
        self.bias = nn.Parameter(torch.zeros(dim))
        self.mlp = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self):
        return self.mlp(self.table(self.bias)).squeeze(-1)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.table = model.table
        self.opt = torch.optim.Adagrad(model.parameters(), lr=lr)

    def fit(self, batches):
        losses = []
        self.table.prefetch(batches[0])
        for i, _ in enumerate(batches):
            loss = self.model().sub(1.0).pow(2).mean()
            if i + 1 < len(batches):
                self.table.prefetch(batches[i + 1])
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            losses.append(loss.detach())
        return torch.stack(losses).cpu()


def main():
    torch.manual_seed(0)
    model = Ranker(CachedTable(500_000, 128, 1 << 15, 0.05), 128).cuda()
    model.table.start()
    batches = [torch.randperm(500_000)[:16384] for _ in range(25)]
    print(Trainer(model, 0.02).fit(batches)[-3:])


if __name__ == "__main__":
    main()
