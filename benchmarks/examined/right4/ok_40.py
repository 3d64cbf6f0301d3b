from concurrent.futures import ThreadPoolExecutor, wait

import torch


class Matcher:
    def __init__(self, seed, vocab):
        self.gen = torch.Generator().manual_seed(seed)
        self.vocab = vocab

    def fill(self, mask, row):
        mask[row].fill_(True)
        banned = torch.randint(0, self.vocab, (self.vocab // 4,), generator=self.gen)
        mask[row, banned] = False


class MaskRing:
    def __init__(self, depth, rows, vocab):
        self.hosts = [torch.empty(rows, vocab, dtype=torch.bool, pin_memory=True) for _ in range(depth)]
        self.events = {i: torch.cuda.Event() for i in range(depth)}
        self.depth, self.cursor = depth, -1

    def checkout(self):
        self.cursor = (self.cursor + 1) % self.depth
        self.events[self.cursor].synchronize()
        return self.hosts[self.cursor]

    def upload(self, rows):
        dev = self.hosts[self.cursor][:rows].to("cuda", non_blocking=True)
        self.events[self.cursor].record()
        return dev


class GuidedSampler:
    def __init__(self, vocab, max_rows, workers=4):
        self.ring = MaskRing(2, max_rows, vocab)
        self.pool = ThreadPoolExecutor(workers)

    def _fill(self, matchers):
        host = self.ring.checkout()
        done, _ = wait([self.pool.submit(m.fill, host, i) for i, m in enumerate(matchers)])
        for f in done:
            f.result()

    def __call__(self, logits, matchers):
        self._fill(matchers)
        mask = self.ring.upload(len(matchers))
        return logits.masked_fill_(~mask, float("-inf")).softmax(-1).multinomial(1).squeeze(-1)


@torch.no_grad()
def generate(rows=16, vocab=32_000, steps=50):
    sampler = GuidedSampler(vocab, rows)
    matchers = [Matcher(i, vocab) for i in range(rows)]
    embed = torch.nn.Embedding(vocab, 128).cuda()
    tokens = torch.zeros(rows, dtype=torch.long, device="cuda")
    history = []
    for _ in range(steps):
        logits = embed(tokens) @ embed.weight.t()
        tokens = sampler(logits, matchers)
        history.append(tokens)
    sampler.pool.shutdown()
    return torch.stack(history, 1).tolist()
