import torch
import torch.nn as nn


class PinnedInputs:
    def __init__(self, batch, length):
        self.tokens = torch.zeros(batch, length, dtype=torch.long, pin_memory=True)
        self.mask = torch.ones(batch, length, pin_memory=True)

    def write(self, rows):
        self.mask.zero_()
        for i, row in enumerate(rows):
            self.tokens[i, : len(row)] = torch.tensor(row)
            self.mask[i, : len(row)] = 1.0


class CapturedEncoder:
    def __init__(self, encoder, batch=16, length=64):
        self.encoder = encoder
        self.host = PinnedInputs(batch, length)
        self.tokens = torch.zeros(batch, length, dtype=torch.long, device="cuda")
        self.mask = torch.zeros(batch, length, device="cuda")
        self.finished = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            self._body()
        warm.synchronize()
        with torch.cuda.graph(self.graph):
            self.pooled = self._body()

    def _body(self):
        self.tokens.copy_(self.host.tokens, non_blocking=True)
        self.mask.copy_(self.host.mask, non_blocking=True)
        states = self.encoder(self.tokens) * self.mask[..., None]
        return states.sum(1) / self.mask.sum(1, keepdim=True).clamp(min=1.0)

    def run(self, rows):
        self.finished.synchronize()
        self.host.write(rows)
        self.graph.replay()
        result = self.pooled.clone()
        self.finished.record()
        return result[: len(rows)]


@torch.no_grad()
def main():
    encoder = nn.Sequential(nn.Embedding(1000, 256), nn.Linear(256, 256), nn.GELU()).cuda()
    runner = CapturedEncoder(encoder)
    vectors = []
    for step in range(50):
        rows = [[(step * 13 + i + j) % 1000 for j in range(5 + i)] for i in range(16)]
        vectors.append(runner.run(rows))
    print(torch.cat(vectors).norm(dim=-1).mean().item())


if __name__ == "__main__":
    main()
