"""Nested-batch prefetcher."""
import torch
from torch.utils.data import DataLoader, TensorDataset


def map_structure(fn, obj):
    if isinstance(obj, torch.Tensor):
        return fn(obj)
    if isinstance(obj, dict):
        return {k: map_structure(fn, v) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(map_structure(fn, v) for v in obj)
    return obj


class StreamMixin:
    _stream = None

    @property
    def side(self) -> torch.cuda.Stream:
        if self._stream is None:
            self._stream = torch.cuda.Stream()
        return self._stream

    def adopt(self, obj):
        current = torch.cuda.current_stream()
        current.wait_stream(self.side)

        def mark(t):
            t.record_stream(current)
            return t

        return map_structure(mark, obj)


class Prefetcher(StreamMixin):
    def __init__(self, loader):
        self.loader = loader

    def _upload(self, batch):
        with torch.cuda.stream(self.side):
            return map_structure(lambda t: t.to("cuda", non_blocking=True), batch)

    def __iter__(self):
        it = iter(self.loader)
        try:
            ahead = self._upload(next(it))
        except StopIteration:
            return
        for batch in it:
            ready = self.adopt(ahead)
            ahead = self._upload(batch)
            yield ready
        yield self.adopt(ahead)


def collate(rows):
    xs, ys = zip(*rows)
    return {"inputs": {"x": torch.stack(xs)}, "targets": [torch.stack(ys)]}


def main():
    data = TensorDataset(torch.randn(4096, 128), torch.randint(10, (4096,)))
    loader = DataLoader(data, 64, collate_fn=collate, pin_memory=True, num_workers=2)
    net = torch.nn.Linear(128, 10).cuda()
    hits = torch.zeros((), device="cuda", dtype=torch.long)
    with torch.no_grad():
        for batch in Prefetcher(loader):
            pred = net(batch["inputs"]["x"]).argmax(1)
            hits += (pred == batch["targets"][0]).sum()
    print(hits.item())


if __name__ == "__main__":
    main()
