import itertools

import torch


class SlotWheel:
    """N pinned index slots, fenced once a turn."""

    def __init__(self, n, batch):
        self.slots = [torch.empty(batch, dtype=torch.long, pin_memory=True) for _ in range(n)]
        self.counter = itertools.count()

    def next(self):
        turn, index = divmod(next(self.counter), len(self.slots))
        if index == 0 and turn:
            torch.cuda.synchronize()
        return self.slots[index]


class EmbeddingSampler:
    def __init__(self, vocab, batch, slots=8, seed=0):
        self.wheel = SlotWheel(slots, batch)
        self.gen = torch.Generator().manual_seed(seed)
        self.vocab = vocab

    def draw(self):
        host = self.wheel.next()
        torch.randint(0, self.vocab, host.shape, generator=self.gen, out=host)
        return host.to("cuda", non_blocking=True)


class SkipGram(torch.nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.center = torch.nn.Embedding(vocab, dim)
        self.context = torch.nn.Embedding(vocab, dim)

    def forward(self, c, p, n):
        v = self.center(c)
        pos = (v * self.context(p)).sum(-1)
        neg = (v * self.context(n)).sum(-1)
        return torch.nn.functional.softplus(-pos).mean() + torch.nn.functional.softplus(neg).mean()


def train(steps=1000, vocab=50_000):
    sampler = EmbeddingSampler(vocab, 8192, slots=9)
    model = SkipGram(vocab, 128).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        c, p, n = (sampler.draw() for _ in range(3))
        loss = model(c, p, n)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    print(train())
