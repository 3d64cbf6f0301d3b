"""Beam bookkeeping on a second stream; the decoder picks the result up when it prepares."""
import torch
import torch.nn as nn


class Decoder(nn.Module):
    def __init__(self, vocab=8000, dim=512):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRUCell(dim, dim)
        self.proj = nn.Linear(dim, vocab)

    def forward(self, tok, h):
        h = self.rnn(self.emb(tok), h)
        return torch.log_softmax(self.proj(h), dim=-1), h


class BeamTable:
    """Scores, parents and tokens of the live hypotheses."""

    def __init__(self, beams, max_len, vocab):
        self.beams = beams
        self.vocab = vocab
        self.stream = torch.cuda.Stream()
        self.scores = torch.full((beams,), -1e9, device="cuda")
        self.scores[0] = 0.0
        self.tokens = torch.zeros(beams, dtype=torch.long, device="cuda")
        self.parents = torch.arange(beams, device="cuda")
        self.trace = torch.zeros(max_len, 2, beams, dtype=torch.long, device="cuda")
        self.moved = torch.cuda.Event()
        self.moved.record()

    def advance(self, logp, t):
        ready = torch.cuda.current_stream().record_event()
        logp.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            total = (self.scores[:, None] + logp).flatten()
            best, flat = total.topk(self.beams)
            self.scores.copy_(best)
            self.parents.copy_(flat // self.vocab)
            self.tokens.copy_(flat % self.vocab)
            self.trace[t, 0].copy_(self.parents)
            self.trace[t, 1].copy_(self.tokens)
            self.moved.record()

    def front(self):
        torch.cuda.current_stream().wait_event(self.moved)
        return self.tokens, self.parents

    def history(self):
        self.stream.synchronize()
        return self.trace.cpu(), self.scores.cpu()


class Search:
    def __init__(self, model, beams=8, max_len=40):
        self.model = model
        self.max_len = max_len
        self.table = BeamTable(beams, max_len, model.proj.out_features)
        self.h = torch.zeros(beams, model.rnn.hidden_size, device="cuda")

    def _prepare(self):
        tokens, parents = self.table.front()
        self.h = self.h.index_select(0, parents)
        return tokens

    @torch.no_grad()
    def run(self):
        for t in range(self.max_len):
            tok = self._prepare()
            logp, self.h = self.model(tok, self.h)
            self.table.advance(logp, t)
        return self._backtrack()

    def _backtrack(self):
        trace, scores = self.table.history()
        row = int(scores.argmax())
        out = []
        for t in reversed(range(self.max_len)):
            out.append(int(trace[t, 1, row]))
            row = int(trace[t, 0, row])
        return out[::-1]


def main():
    torch.manual_seed(3)
    print(Search(Decoder().cuda().eval()).run())


if __name__ == "__main__":
    main()
