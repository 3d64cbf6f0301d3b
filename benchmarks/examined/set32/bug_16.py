"""Captured scoring step: the upload of the padded token batch is part of the graph."""
import torch


class Block(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = torch.nn.LayerNorm(dim)
        self.up = torch.nn.Linear(dim, 4 * dim)
        self.down = torch.nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Scorer(torch.nn.Module):
    def __init__(self, vocab=50257, dim=1024, layers=16):
        super().__init__()
        self.embed = torch.nn.Embedding(vocab, dim)
        self.layers = torch.nn.ModuleList(Block(dim) for _ in range(layers))
        self.head = torch.nn.Linear(dim, 1)

    def forward(self, ids, mask):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        weight = mask.unsqueeze(-1).to(x.dtype)
        return self.head((x * weight).sum(1) / weight.sum(1).clamp_min(1.0)).squeeze(-1)


class GraphedScorer:
    """One graph per instance with fixed batch and sequence length."""

    def __init__(self, model, batch, seq_len, device="cuda"):
        self.model = model.eval()
        self.batch = batch
        self.seq_len = seq_len
        self.host_ids = torch.zeros(batch, seq_len, dtype=torch.int64, pin_memory=True)
        self.host_mask = torch.zeros(batch, seq_len, dtype=torch.bool, pin_memory=True)
        self.ids = torch.zeros(batch, seq_len, dtype=torch.int64, device=device)
        self.mask = torch.zeros(batch, seq_len, dtype=torch.bool, device=device)
        self.graph = None
        self.scores = None
        self._capture()

    def _upload(self):
        self.ids.copy_(self.host_ids, non_blocking=True)
        self.mask.copy_(self.host_mask, non_blocking=True)

    @torch.no_grad()
    def _capture(self):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._upload()
                self.model(self.ids, self.mask)
        torch.cuda.current_stream().wait_stream(warm)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._upload()
            self.scores = self.model(self.ids, self.mask)

    def _fill(self, sequences):
        self.host_ids.zero_()
        self.host_mask.zero_()
        for row, seq in enumerate(sequences):
            n = min(len(seq), self.seq_len)
            self.host_ids[row, :n] = torch.as_tensor(seq[:n])
            self.host_mask[row, :n] = True

    def score(self, sequences):
        """Scores up to `batch` sequences; the result stays on the device."""
        if len(sequences) > self.batch:
            raise ValueError("too many sequences")
        self._fill(sequences)
        self.graph.replay()
        return self.scores[: len(sequences)].clone()


def score_corpus(scorer, corpus):
    parts = []
    for start in range(0, len(corpus), scorer.batch):
        parts.append(scorer.score(corpus[start : start + scorer.batch]))
    return torch.cat(parts).cpu().tolist()


if __name__ == "__main__":
    gen = torch.Generator().manual_seed(0)
    lengths = torch.randint(16, 256, (1024,), generator=gen).tolist()
    corpus = [torch.randint(1, 50257, (n,), generator=gen).tolist() for n in lengths]
    print(sum(score_corpus(GraphedScorer(Scorer().cuda(), 32, 256), corpus)))
