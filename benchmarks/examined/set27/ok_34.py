"""Neighbour-sampling data loader that prefetches features in a thread, on a side stream."""
import queue
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F


class NeighborSampler:
    def __init__(self, indptr, indices, fanout):
        self.indptr, self.indices, self.fanout = indptr, indices, fanout

    def sample(self, seeds):
        deg = (self.indptr[seeds + 1] - self.indptr[seeds]).clamp(min=1)
        pick = (torch.rand(seeds.numel(), self.fanout) * deg[:, None]).long()
        pos = (self.indptr[seeds][:, None] + pick).clamp(max=self.indices.numel() - 1)
        return self.indices[pos]


def _prefetch(seeds, sampler, feats, labels, device, stream):
    neighbors = sampler.sample(seeds)
    nodes = torch.cat([seeds[:, None], neighbors], dim=1)
    with torch.cuda.stream(stream):
        host = torch.empty(nodes.numel(), feats.shape[1], pin_memory=True)
        torch.index_select(feats, 0, nodes.reshape(-1), out=host)
        x = host.to(device, non_blocking=True).view(*nodes.shape, -1)
        y = labels[seeds].pin_memory().to(device, non_blocking=True)
        event = stream.record_event()
    return (x, y), event


def _prefetcher_entry(loader, seeds_iter, out, stop):
    try:
        torch.cuda.set_device(loader.device)
        for seeds in seeds_iter:
            item = _prefetch(seeds, loader.sampler, loader.feats, loader.labels,
                             loader.device, loader.stream)
            if stop.is_set():
                return
            out.put((item, None))
        out.put((None, None))
    except BaseException as exc:
        out.put((None, exc))


class _PrefetchingIter:
    def __init__(self, loader, seeds_iter):
        self.loader = loader
        self.queue = queue.Queue(maxsize=2)
        self.stop = threading.Event()
        self.thread = threading.Thread(
            target=_prefetcher_entry, args=(loader, seeds_iter, self.queue, self.stop), daemon=True)
        self.thread.start()

    def __next__(self):
        item, exc = self.queue.get()
        if exc is not None:
            raise exc
        if item is None:
            self.thread.join()
            raise StopIteration
        batch, event = item
        current = torch.cuda.current_stream()
        current.wait_event(event)
        for t in batch:
            t.record_stream(current)
        return batch

    def __del__(self):
        self.stop.set()


class DataLoader:
    def __init__(self, sampler, feats, labels, batch_size, device):
        self.sampler, self.feats, self.labels = sampler, feats, labels
        self.batch_size = batch_size
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def __iter__(self):
        perm = torch.randperm(self.labels.numel())
        return _PrefetchingIter(self, iter(perm.split(self.batch_size)))


class MeanSage(nn.Module):
    def __init__(self, dim, hidden, classes):
        super().__init__()
        self.self_fc = nn.Linear(dim, hidden)
        self.neigh_fc = nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.out(F.relu(self.self_fc(x[:, 0]) + self.neigh_fc(x[:, 1:].mean(dim=1))))


def main(nodes=200_000, dim=256, classes=47):
    device = torch.device("cuda", 0)
    deg = torch.randint(1, 40, (nodes,))
    indptr = torch.cat([torch.zeros(1, dtype=torch.long), deg.cumsum(0)])
    indices = torch.randint(0, nodes, (int(indptr[-1]),))
    feats, labels = torch.randn(nodes, dim), torch.randint(0, classes, (nodes,))
    loader = DataLoader(NeighborSampler(indptr, indices, 15), feats, labels, 4096, device)
    model = MeanSage(dim, 512, classes).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item()
        print(epoch, total)


if __name__ == "__main__":
    main()
