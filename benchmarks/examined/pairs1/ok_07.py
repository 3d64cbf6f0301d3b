"""Decode through captured graphs, one per padded batch size."""
from collections import deque

import torch


class GraphRunner:
    def __init__(self, model, batch_sizes, dim):
        self.graphs = {}
        pool = None
        for bs in sorted(batch_sizes, reverse=True):
            static_in = torch.zeros(bs, dim, device="cuda")
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                model(static_in)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                static_out = model(static_in)
            pool = pool or graph.pool()
            self.graphs[bs] = (graph, static_in, static_out)

    def __call__(self, hidden):
        n = hidden.shape[0]
        bs = min(b for b in self.graphs if b >= n)
        graph, static_in, static_out = self.graphs[bs]
        static_in[:n].copy_(hidden)
        graph.replay()
        return static_out[:n].clone()


@torch.no_grad()
def main():
    dim, vocab = 512, 16000
    w = torch.randn(dim, dim, device="cuda") / 20
    head = torch.randn(dim, vocab, device="cuda")
    runner = GraphRunner(lambda h: torch.tanh(h @ w) @ head, [1, 2, 4, 8, 16], dim)
    pending, tokens = deque(), []
    for step in range(100):
        pending.append(runner(torch.randn(1 + step % 16, dim, device="cuda")))
        if len(pending) > 2:
            tokens.append(pending.popleft().argmax(-1).tolist())
    tokens.extend(p.argmax(-1).tolist() for p in pending)
    return tokens


if __name__ == "__main__":
    print(len(main()))
