"""Scores candidate continuations with a captured forward pass."""
import torch
from torch import nn


class CapturedScorer:
    def __init__(self, model, batch, length, device="cuda"):
        self.model = model.to(device).eval()
        self.device = torch.device(device)
        self.ids_host = torch.zeros(batch, length, dtype=torch.int64, pin_memory=True)
        self.ids = torch.zeros(batch, length, dtype=torch.int64, device=self.device)
        self.score = torch.zeros(batch, device=self.device)
        self.graph = None

    def _forward(self):
        self.ids.copy_(self.ids_host, non_blocking=True)
        logits = self.model(self.ids[:, :-1])
        logp = torch.log_softmax(logits.float(), dim=-1)
        picked = logp.gather(-1, self.ids[:, 1:, None]).squeeze(-1)
        self.score.copy_(picked.sum(dim=-1))

    @torch.no_grad()
    def capture(self):
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(3):
                self._forward()
        torch.cuda.current_stream(self.device).wait_stream(side)
        torch.cuda.synchronize(self.device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._forward()

    def run(self, rows):
        self.ids_host.copy_(rows)
        self.graph.replay()
        return self.score.clone()


class TinyLM(nn.Module):
    def __init__(self, vocab=32000, width=1024, depth=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        layer = nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


def rank_candidates(scorer, groups):
    """groups: list of int64 CPU tensors, one row per candidate."""
    scores = [scorer.run(rows) for rows in groups]
    return torch.stack(scores).argmax(dim=-1).cpu()


def main(batch=16, length=256, groups=32):
    scorer = CapturedScorer(TinyLM(), batch, length)
    scorer.capture()
    data = [torch.randint(0, 32000, (batch, length)) for _ in range(groups)]
    return rank_candidates(scorer, data)


if __name__ == "__main__":
    print(main())
