"""Chunked scoring of a long document through one captured forward pass."""
import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        return self.head(self.mix(self.embed(ids))).log_softmax(-1)


class GraphedScorer:
    def __init__(self, model, chunk):
        self.model = model
        self.chunk = chunk
        self.ids = torch.zeros(chunk, dtype=torch.long, device="cuda")
        self.graph = None
        self.logprobs = None

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.model(self.ids)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logprobs = self.model(self.ids)

    def forward(self, ids):
        if self.graph is None:
            self.capture()
        n = ids.shape[0]
        self.ids[:n].copy_(ids, non_blocking=True)
        self.graph.replay()
        return self.logprobs[:n]

    def score(self, document):
        parts = [self.forward(chunk) for chunk in document.split(self.chunk)]
        logprobs = torch.cat(parts)
        target = document[1:].unsqueeze(-1)
        return logprobs[:-1].gather(-1, target).mean()


@torch.inference_mode()
def main():
    scorer = GraphedScorer(Scorer(8000, 512).cuda().eval(), chunk=256)
    for length in (1000, 2048, 777):
        doc = torch.randint(0, 8000, (length,), device="cuda")
        print(length, scorer.score(doc).exp().item())


if __name__ == "__main__":
    main()
