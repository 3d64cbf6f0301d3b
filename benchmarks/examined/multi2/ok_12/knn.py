import torch


class TopK:
    """Nearest rows of a streamed table for a fixed set of queries."""

    def __init__(self, queries, k):
        n = queries.shape[0]
        self.queries = queries
        self.best = torch.full((n, k), -float("inf"), device=queries.device)
        self.index = torch.zeros(n, k, dtype=torch.int64, device=queries.device)
        self.k = k

    def absorb(self, base, chunk):
        score = self.queries @ chunk.T
        s, i = score.topk(self.k, dim=1)
        alls = torch.cat([self.best, s], dim=1)
        alli = torch.cat([self.index, i + base], dim=1)
        s, pos = alls.topk(self.k, dim=1)
        self.best.copy_(s)
        self.index.copy_(alli.gather(1, pos))

    def result(self):
        return self.best.cpu(), self.index.cpu()


def recall(found, wanted):
    """Share of wanted rows that were found, both (n, k) on the CPU."""
    hits = 0
    for f, w in zip(found.tolist(), wanted.tolist()):
        hits += len(set(f) & set(w))
    return hits / wanted.numel()
