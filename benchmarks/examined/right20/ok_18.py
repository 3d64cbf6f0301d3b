import torch
from torch.utils.data import IterableDataset


class Buffered(IterableDataset):
    def __init__(self):
        super().__init__()
        self.waiting = []

    def push(self, *entry):
        self.waiting.append(entry)

    def shift(self):
        return self.waiting.pop(0)


class DevicePrefetch(Buffered):
    def __init__(self, inner, ahead=2):
        super().__init__()
        self.inner = inner
        self.ahead = ahead
        self.side = torch.cuda.Stream()

    def _load(self, batch):
        with torch.cuda.stream(self.side):
            moved = {k: v.pin_memory().to("cuda", non_blocking=True) for k, v in batch.items()}
            moved["mask"] = moved["ids"].ne(0)
        done = self.side.record_event()
        self.push(moved, done)

    def __iter__(self):
        stream = iter(self.inner)
        for batch in stream:
            self._load(batch)
            if len(self.waiting) <= self.ahead:
                continue
            yield self._pop()
        while self.waiting:
            yield self._pop()

    def _pop(self):
        moved, done = self.shift()
        here = torch.cuda.current_stream()
        here.wait_event(done)
        for t in moved.values():
            t.record_stream(here)
        return moved


class Synthetic(IterableDataset):
    def __init__(self, n, batch, length, vocab):
        self.n, self.batch, self.length, self.vocab = n, batch, length, vocab

    def __iter__(self):
        for _ in range(self.n):
            ids = torch.randint(0, self.vocab, (self.batch, self.length))
            yield {"ids": ids, "label": ids.sum(1) % 2}


def main():
    emb = torch.nn.EmbeddingBag(500, 64, mode="sum").cuda()
    cls = torch.nn.Linear(64, 2).cuda()
    params = list(emb.parameters()) + list(cls.parameters())
    opt = torch.optim.SGD(params, lr=0.1)
    running = torch.zeros((), device="cuda")
    for item in DevicePrefetch(Synthetic(80, 64, 20, 500)):
        w = item["mask"].float()
        logits = cls(emb(item["ids"], per_sample_weights=w))
        loss = torch.nn.functional.cross_entropy(logits, item["label"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        running.mul_(0.9).add_(loss.detach(), alpha=0.1)
    print("running loss", running.item())


if __name__ == "__main__":
    main()
