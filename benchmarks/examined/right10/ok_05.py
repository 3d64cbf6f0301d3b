"""Decode runner: one captured graph per padded batch size, one private pool for them all."""
from dataclasses import dataclass

import torch


@dataclass
class Captured:
    graph: torch.cuda.CUDAGraph
    tokens: torch.Tensor
    positions: torch.Tensor
    logits: torch.Tensor


class TinyLM(torch.nn.Module):
    def __init__(self, vocab=4096, dim=512, ctx=2048):
        super().__init__()
        self.tok = torch.nn.Embedding(vocab, dim)
        self.pos = torch.nn.Embedding(ctx, dim)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(dim, 4 * dim), torch.nn.SiLU(), torch.nn.Linear(4 * dim, dim))
        self.out = torch.nn.Linear(dim, vocab)

    def forward(self, tokens, positions):
        h = self.tok(tokens) + self.pos(positions)
        return self.out(h + self.mlp(h))


class DecodeRunner:
    SIZES = (1, 2, 4, 8, 16, 32)

    def __init__(self, model: TinyLM):
        self.model = model
        self.pool = None
        self.by_size: dict[int, Captured] = {}
        top = max(self.SIZES)
        self._tokens = torch.zeros(top, dtype=torch.long, device="cuda")
        self._positions = torch.zeros(top, dtype=torch.long, device="cuda")

    @torch.inference_mode()
    def warm(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for n in self.SIZES:
                self.model(self._tokens[:n], self._positions[:n])
        torch.cuda.current_stream().wait_stream(side)
        for n in sorted(self.SIZES, reverse=True):
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g, pool=self.pool):
                logits = self.model(self._tokens[:n], self._positions[:n])
            if self.pool is None:
                self.pool = g.pool()
            self.by_size[n] = Captured(g, self._tokens[:n], self._positions[:n], logits)

    def _bucket(self, n: int) -> Captured:
        return self.by_size[next(s for s in self.SIZES if s >= n)]

    @torch.inference_mode()
    def step(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        n = tokens.numel()
        cap = self._bucket(n)
        cap.tokens[:n].copy_(tokens)
        cap.positions[:n].copy_(positions)
        cap.graph.replay()
        return cap.logits[:n].clone()


def main():
    runner = DecodeRunner(TinyLM().cuda().eval())
    runner.warm()
    history = []
    tokens = torch.randint(0, 4096, (13,), device="cuda")
    for t in range(64):
        n = max(1, 13 - t // 5)
        logits = runner.step(tokens[:n], torch.full((n,), t, device="cuda"))
        history.append(logits)
        tokens = logits.argmax(-1)
    best = [h.max().item() for h in history]
    print(sum(best) / len(best))


if __name__ == "__main__":
    main()
