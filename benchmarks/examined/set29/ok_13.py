"""Graph mini-batch loader: a prefetch thread slices features on an alternate stream."""
from __future__ import annotations

import queue
import threading
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Block:
    src_ids: torch.Tensor
    neighbors: torch.Tensor
    labels: torch.Tensor
    features: torch.Tensor | None = None

    def tensors(self) -> list[torch.Tensor]:
        out = [self.src_ids, self.neighbors, self.labels]
        return out + ([self.features] if self.features is not None else [])


class UniformSampler:
    def __init__(self, indptr: torch.Tensor, indices: torch.Tensor, fanout: int) -> None:
        self.indptr, self.indices, self.fanout = indptr, indices, fanout

    def sample(self, seeds: torch.Tensor) -> torch.Tensor:
        start = self.indptr[seeds].unsqueeze(1)
        degree = (self.indptr[seeds + 1].unsqueeze(1) - start).clamp_(min=1)
        offset = (torch.rand(seeds.numel(), self.fanout) * degree).long()
        return self.indices[(start + offset).clamp_(max=self.indices.numel() - 1)]


class NodeDataLoader:
    def __init__(self, sampler: UniformSampler, feat: torch.Tensor, labels: torch.Tensor,
                 batch_size: int, device: torch.device) -> None:
        self.sampler, self.feat, self.labels = sampler, feat, labels
        self.batch_size = batch_size
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def _fetch(self, seeds: torch.Tensor, current_stream: torch.cuda.Stream):
        neighbors = self.sampler.sample(seeds)
        unique, inverse = torch.unique(torch.cat([seeds.unsqueeze(1), neighbors], 1), return_inverse=True)
        rows = torch.empty(unique.numel(), self.feat.shape[1], pin_memory=True)
        torch.index_select(self.feat, 0, unique, out=rows)
        with torch.cuda.stream(self.stream):
            block = Block(
                inverse[:, 0].pin_memory().to(self.device, non_blocking=True),
                inverse[:, 1:].contiguous().pin_memory().to(self.device, non_blocking=True),
                self.labels[seeds].pin_memory().to(self.device, non_blocking=True),
                rows.to(self.device, non_blocking=True),
            )
            for tensor in block.tensors():
                tensor.record_stream(current_stream)
            return block, self.stream.record_event()

    def _prefetcher(self, order: torch.Tensor, out: queue.Queue, current_stream, stop) -> None:
        torch.cuda.set_device(self.device)
        for seeds in order.split(self.batch_size):
            if stop.is_set():
                break
            out.put(self._fetch(seeds, current_stream))
        out.put((None, None))

    def __iter__(self):
        out: queue.Queue = queue.Queue(maxsize=2)
        stop = threading.Event()
        order = torch.randperm(self.labels.numel())
        current_stream = torch.cuda.current_stream(self.device)
        thread = threading.Thread(
            target=self._prefetcher, args=(order, out, current_stream, stop), daemon=True
        )
        thread.start()
        try:
            while True:
                block, ready = out.get()
                if block is None:
                    return
                current_stream.wait_event(ready)
                yield block
        finally:
            stop.set()


class SageLayer(nn.Module):
    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        self.self_fc, self.neigh_fc = nn.Linear(dim, classes), nn.Linear(dim, classes)

    def forward(self, block: Block) -> torch.Tensor:
        pooled = block.features[block.neighbors].mean(dim=1)
        return self.self_fc(block.features[block.src_ids]) + self.neigh_fc(pooled)


if __name__ == "__main__":
    n, dev = 50_000, torch.device("cuda", 0)
    ptr = torch.arange(0, 10 * n + 1, 10)
    loader = NodeDataLoader(UniformSampler(ptr, torch.randint(0, n, (10 * n,)), 8),
                            torch.randn(n, 256), torch.randint(0, 16, (n,)), 1024, dev)
    model = SageLayer(256, 16).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for blk in loader:
        loss = nn.functional.cross_entropy(model(blk), blk.labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
