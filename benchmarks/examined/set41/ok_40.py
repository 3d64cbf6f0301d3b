"""Node classification with a feature prefetcher on an alternate stream."""
import argparse
import queue
import threading
from dataclasses import dataclass
from typing import Iterator, List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class PrefetchOptions:
    batch: int = 4096
    fanout: int = 10
    depth: int = 2


@dataclass
class Sampled:
    x: torch.Tensor
    nbr: torch.Tensor
    y: torch.Tensor
    ready: torch.cuda.Event

    def tensors(self) -> List[torch.Tensor]:
        return [self.x, self.nbr, self.y]

    def claim(self, stream: torch.cuda.Stream) -> "Sampled":
        stream.wait_event(self.ready)
        for t in self.tensors():
            t.record_stream(stream)
        return self


class FeatureStore:
    def __init__(self, nodes: int, dim: int, classes: int, device: torch.device):
        self.nodes, self.device = nodes, device
        self.adj = torch.randint(nodes, (nodes, 25))
        self.feat = torch.randn(nodes, dim, device=device)
        self.label = torch.randint(classes, (nodes,), device=device)
        self.loaded = torch.cuda.Event()
        self.loaded.record(torch.cuda.current_stream(device))


class Producer(threading.Thread):
    def __init__(self, store: FeatureStore, opts: PrefetchOptions, seeds: torch.Tensor):
        super().__init__(daemon=True)
        self.store, self.opts, self.seeds = store, opts, seeds
        self.q: "queue.Queue[Optional[Sampled]]" = queue.Queue(opts.depth)

    def _one(self, ids: torch.Tensor) -> Sampled:
        nb = self.store.adj[ids][:, torch.randperm(25)[: self.opts.fanout]]
        d_ids = ids.pin_memory().to(self.store.device, non_blocking=True)
        d_nb = nb.pin_memory().to(self.store.device, non_blocking=True)
        x = self.store.feat[d_ids]
        nbr = F.embedding(d_nb, self.store.feat)
        y = self.store.label[d_ids]
        ev = torch.cuda.Event()
        ev.record()
        return Sampled(x, nbr, y, ev)

    def run(self) -> None:
        torch.cuda.set_device(self.store.device)
        alt = torch.cuda.Stream(self.store.device)
        alt.wait_event(self.store.loaded)
        with torch.cuda.stream(alt), torch.no_grad():
            for ids in self.seeds.split(self.opts.batch):
                self.q.put(self._one(ids))
        self.q.put(None)


class Loader:
    def __init__(self, store: FeatureStore, opts: PrefetchOptions):
        self.store, self.opts = store, opts

    def __iter__(self) -> Iterator[Sampled]:
        p = Producer(self.store, self.opts, torch.randperm(self.store.nodes))
        p.start()
        while (item := p.q.get()) is not None:
            yield item.claim(torch.cuda.current_stream(self.store.device))
        p.join()


class Sage(nn.Module):
    def __init__(self, dim: int, hidden: int, classes: int):
        super().__init__()
        self.a, self.b = nn.Linear(dim, hidden), nn.Linear(dim, hidden)
        self.c = nn.Linear(hidden, classes)

    def forward(self, x, nbr):
        return self.c(F.relu(self.a(x) + self.b(nbr.mean(1))))


class Fit:
    def __init__(self, model: nn.Module, lr: float, device: torch.device):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.device = device

    def epoch(self, loader: Loader) -> float:
        total = torch.zeros((), device=self.device)
        n = 0
        for s in loader:
            loss = F.cross_entropy(self.model(s.x, s.nbr), s.y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            total += loss.detach()
            n += 1
        return total.item() / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=400_000)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args()
    dev = torch.device("cuda", 0)
    store = FeatureStore(args.nodes, 128, 40, dev)
    fit = Fit(Sage(128, 256, 40).to(dev), 3e-3, dev)
    for e in range(args.epochs):
        print(e, fit.epoch(Loader(store, PrefetchOptions())))


if __name__ == "__main__":
    main()
