import torch

from .static import StaticStep


class BucketedStep:
    def __init__(self, fn, sizes, dim):
        self.stream = torch.cuda.Stream()
        pool = torch.cuda.graph_pool_handle()
        self.steps = [StaticStep(fn, rows, dim, pool, self.stream)
                      for rows in sorted(sizes, reverse=True)]
        torch.cuda.synchronize()

    def pick(self, rows):
        fitting = [s for s in self.steps if s.rows >= rows]
        return fitting[-1]

    def generate(self, token, state, lengths):
        """Yield the tokens of each step; rows that are done drop out."""
        longest = max(lengths)
        self.stream.wait_stream(torch.cuda.current_stream())
        for k in range(longest):
            alive = sum(1 for n in lengths if n > k)
            with torch.cuda.stream(self.stream), torch.no_grad():
                token, state = self.pick(alive)(token[:alive], state[:alive])
            yield token

    def load(self, lengths):
        """How often each size will be replayed for the given lengths."""
        counts = {s.rows: 0 for s in self.steps}
        for k in range(max(lengths)):
            alive = sum(1 for n in lengths if n > k)
            counts[self.pick(alive).rows] += 1
        return counts
