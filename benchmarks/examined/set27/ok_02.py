import queue
import threading

import torch


class FeatureStorage:
    """Node features in host memory, fetched by row."""

    def __init__(self, tensor):
        self.tensor = tensor

    def fetch(self, indices, device):
        rows = torch.empty(
            len(indices), *self.tensor.shape[1:], dtype=self.tensor.dtype, pin_memory=True
        )
        torch.index_select(self.tensor, 0, indices, out=rows)
        return rows.to(device, non_blocking=True)


class Block:
    """One sampled bipartite layer."""

    def __init__(self, src, dst, num_dst):
        self.src, self.dst, self.num_dst = src, dst, num_dst

    def to(self, device):
        return Block(
            self.src.pin_memory().to(device, non_blocking=True),
            self.dst.pin_memory().to(device, non_blocking=True),
            self.num_dst,
        )

    def tensors(self):
        return [self.src, self.dst]


class PrefetchingIter:
    """Samples and moves the next minibatches in a thread of its own."""

    def __init__(self, seeds, sampler, features, labels, device, depth=2):
        self.seeds = seeds
        self.sampler = sampler
        self.features = features
        self.labels = labels
        self.device = device
        self.queue = queue.Queue(depth)
        self.stream = torch.cuda.Stream(device=device)
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._entry, daemon=True)
        self.thread.start()

    def _entry(self):
        torch.cuda.set_device(self.device)
        try:
            with torch.cuda.stream(self.stream):
                for seeds in self.seeds:
                    if self.done.is_set():
                        return
                    input_nodes, blocks = self.sampler(seeds)
                    x = self.features.fetch(input_nodes, self.device)
                    y = self.labels.fetch(seeds, self.device)
                    blocks = [b.to(self.device) for b in blocks]
                    self.queue.put((blocks, x, y, self.stream.record_event()))
            self.queue.put(None)
        except BaseException as exc:
            self.queue.put(exc)

    def __iter__(self):
        return self

    def __next__(self):
        item = self.queue.get()
        if item is None:
            raise StopIteration
        if isinstance(item, BaseException):
            raise item
        blocks, x, y, event = item
        current = torch.cuda.current_stream(self.device)
        current.wait_event(event)
        x.record_stream(current)
        y.record_stream(current)
        for block in blocks:
            for t in block.tensors():
                t.record_stream(current)
        return blocks, x, y

    def close(self):
        self.done.set()


def mean_aggregate(block, x):
    out = torch.zeros(block.num_dst, x.shape[1], device=x.device)
    out.index_add_(0, block.dst, x[block.src])
    deg = torch.bincount(block.dst, minlength=block.num_dst).clamp(min=1)
    return out / deg.unsqueeze(1)


def train_epoch(layers, optimizer, seeds, sampler, features, labels, device):
    for blocks, x, y in PrefetchingIter(seeds, sampler, features, labels, device):
        for layer, block in zip(layers, blocks):
            x = layer(torch.cat([x[: block.num_dst], mean_aggregate(block, x)], dim=1)).relu()
        loss = torch.nn.functional.cross_entropy(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
