"""GNN training with a device feature cache that is refreshed while training."""
import torch
from torch import nn


class FeatureCache:
    """Hot node features; reads on the fetch stream, refreshes on the trainer's."""

    def __init__(self, features, capacity):
        self.features = features.pin_memory()
        self.table = self.features[:capacity].cuda()
        self.capacity = capacity
        self.fetch_stream = torch.cuda.Stream()
        self.refreshed = torch.cuda.Event()
        self.gathered = torch.cuda.Event()
        self.refreshed.record()

    def gather(self, nodes):
        with torch.cuda.stream(self.fetch_stream):
            self.fetch_stream.wait_event(self.refreshed)
            index = nodes.pin_memory().cuda(non_blocking=True)
            rows = self.table.index_select(0, index)
            self.gathered.record()
        return rows

    def refresh(self, slots, values):
        current = torch.cuda.current_stream()
        current.wait_event(self.gathered)
        self.table.index_copy_(0, slots, values)
        self.refreshed.record(current)


class Sampler:
    def __init__(self, nodes, fanout, batch):
        self.nodes, self.fanout, self.batch = nodes, fanout, batch

    def __iter__(self):
        for _ in range(300):
            yield torch.randint(0, self.nodes, (self.batch * (self.fanout + 1),))


def batches(cache, sampler):
    it = iter(sampler)
    ahead = cache.gather(next(it))
    for nodes in it:
        rows, ahead = ahead, cache.gather(nodes)
        current = torch.cuda.current_stream()
        current.wait_stream(cache.fetch_stream)
        rows.record_stream(current)
        yield rows


def main():
    cache = FeatureCache(torch.randn(200_000, 128), 100_000)
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 32)).cuda()
    opt = torch.optim.Adam(net.parameters())
    for step, rows in enumerate(batches(cache, Sampler(100_000, 10, 512))):
        rows = rows.view(512, 11, 128)
        h = torch.cat([rows[:, 0], rows[:, 1:].mean(1)], dim=1)
        loss = net(h).logsumexp(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            slots = torch.randperm(100_000, device="cuda")[:512]
            cache.refresh(slots, h[:, 128:].detach() * 0.5 + h[:, :128] * 0.5)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
