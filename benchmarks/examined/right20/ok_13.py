import torch


class Ring:
    def __init__(self, source, depth=3):
        self.source = iter(source)
        self.depth = depth
        self.slots = [None] * depth
        self.landed = [None] * depth
        self.stream = torch.cuda.Stream()
        self.head = 0
        self.tail = 0
        for _ in range(depth):
            self._fill()

    def _fill(self):
        try:
            ids, feats = next(self.source)
        except StopIteration:
            return False
        at = self.head % self.depth
        with torch.cuda.stream(self.stream):
            ids = ids.pin_memory().to("cuda", non_blocking=True)
            feats = feats.pin_memory().to("cuda", non_blocking=True).float()
            feats.div_(255.0)
            self.slots[at] = (ids, feats)
            self.landed[at] = self.stream.record_event()
        self.head += 1
        return True

    def __iter__(self):
        return self

    def __next__(self):
        if self.tail == self.head:
            raise StopIteration
        at = self.tail % self.depth
        self.tail += 1
        here = torch.cuda.current_stream()
        here.wait_event(self.landed[at])
        item = self.slots[at]
        for t in item:
            t.record_stream(here)
        self._fill()
        return item


def source(n, rows=128, dim=64, vocab=1000):
    for i in range(n):
        g = torch.Generator().manual_seed(i)
        ids = torch.randint(0, vocab, (rows,), generator=g)
        feats = torch.randint(0, 256, (rows, dim), generator=g, dtype=torch.uint8)
        yield ids, feats


def main():
    table = torch.nn.Embedding(1000, 64).cuda()
    head = torch.nn.Linear(64, 1).cuda()
    opt = torch.optim.Adam([*table.parameters(), *head.parameters()])
    loss = None
    for step, (ids, feats) in enumerate(Ring(source(100), depth=4)):
        opt.zero_grad()
        score = head(table(ids) * feats).squeeze(-1)
        loss = torch.nn.functional.softplus(-score).mean()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, loss.item())
    return loss.item()


if __name__ == "__main__":
    main()
