"""Mini-batch GraphSAGE with features gathered by a prefetch thread on an alternate stream."""
import argparse
import queue
import threading
from dataclasses import dataclass
from typing import Iterator, List, NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LoaderConfig:
    batch: int = 4096
    fanout: int = 15
    prefetch: int = 2
    use_alternate_stream: bool = True


class Block(NamedTuple):
    seeds: torch.Tensor
    neigh: torch.Tensor


class MiniBatch(NamedTuple):
    x_seed: torch.Tensor
    x_neigh: torch.Tensor
    y: torch.Tensor
    ready: torch.cuda.Event


class GraphStore:
    """Adjacency on the host, node features and labels on the device."""

    def __init__(self, nodes: int, dim: int, classes: int, device: torch.device):
        self.nodes, self.dim, self.classes = nodes, dim, classes
        self.device = device
        self.indptr = torch.arange(0, nodes * 20 + 1, 20)
        self.indices = torch.randint(nodes, (nodes * 20,))
        self.feat = torch.randn(nodes, dim, device=device)
        self.label = torch.randint(classes, (nodes,), device=device)
        torch.cuda.synchronize(device)

    def sample(self, seeds: torch.Tensor, fanout: int) -> Block:
        off = torch.randint(20, (len(seeds), fanout))
        return Block(seeds, self.indices[self.indptr[seeds].unsqueeze(1) + off])


class Prefetcher(threading.Thread):
    def __init__(self, store: GraphStore, cfg: LoaderConfig, order: torch.Tensor):
        super().__init__(daemon=True)
        self.store, self.cfg, self.order = store, cfg, order
        self.stream = torch.cuda.Stream(store.device) if cfg.use_alternate_stream else None
        self.out: "queue.Queue[object]" = queue.Queue(cfg.prefetch)

    def _gather(self, b: Block) -> MiniBatch:
        dev = self.store.device
        seeds = b.seeds.to(dev)
        neigh = b.neigh.to(dev)
        x_seed = self.store.feat[seeds]
        x_neigh = self.store.feat[neigh.flatten()].view(*neigh.shape, -1)
        y = self.store.label[seeds]
        ready = torch.cuda.Event()
        ready.record()
        return MiniBatch(x_seed, x_neigh, y, ready)

    def run(self) -> None:
        try:
            torch.cuda.set_device(self.store.device)
            with torch.cuda.stream(self.stream):
                for seeds in self.order.split(self.cfg.batch):
                    self.out.put(self._gather(self.store.sample(seeds, self.cfg.fanout)))
            self.out.put(None)
        except BaseException as e:
            self.out.put(e)


class NodeLoader:
    def __init__(self, store: GraphStore, cfg: LoaderConfig):
        self.store, self.cfg = store, cfg

    def __iter__(self) -> Iterator[MiniBatch]:
        worker = Prefetcher(self.store, self.cfg, torch.randperm(self.store.nodes))
        worker.start()
        while True:
            item = worker.out.get()
            if item is None:
                break
            if isinstance(item, BaseException):
                raise item
            torch.cuda.current_stream(self.store.device).wait_event(item.ready)
            yield item
            del item


class SAGE(nn.Module):
    def __init__(self, dim: int, hidden: int, classes: int):
        super().__init__()
        self.self_fc = nn.Linear(dim, hidden)
        self.neigh_fc = nn.Linear(dim, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor, nbr: torch.Tensor) -> torch.Tensor:
        h = self.self_fc(x) + self.neigh_fc(nbr.mean(1))
        return self.out(F.relu(h))


class Meter:
    def __init__(self, device: torch.device):
        self.loss = torch.zeros((), device=device)
        self.right = torch.zeros((), device=device)
        self.n = 0

    def add(self, loss: torch.Tensor, logits: torch.Tensor, y: torch.Tensor) -> None:
        self.loss += loss.detach() * len(y)
        self.right += (logits.argmax(1) == y).sum()
        self.n += len(y)

    def result(self) -> List[float]:
        return [self.loss.item() / self.n, self.right.item() / self.n]


def train_epoch(model: SAGE, loader: NodeLoader, opt: torch.optim.Optimizer, meter: Optional[Meter]) -> None:
    for mb in loader:
        logits = model(mb.x_seed, mb.x_neigh)
        loss = F.cross_entropy(logits, mb.y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if meter is not None:
            meter.add(loss, logits, mb.y)
        del mb, logits, loss


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=500_000)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--hidden", type=int, default=256)
    ap.add_argument("--epochs", type=int, default=2)
    args = ap.parse_args()
    dev = torch.device("cuda", 0)
    store = GraphStore(args.nodes, args.dim, 47, dev)
    model = SAGE(args.dim, args.hidden, 47).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for e in range(args.epochs):
        meter = Meter(dev)
        train_epoch(model, NodeLoader(store, LoaderConfig()), opt, meter)
        print(e, meter.result())


if __name__ == "__main__":
    main()
