"""Draft/target speculative decoding on two streams."""
from typing import NamedTuple

import torch
from torch import nn


class Handoff(NamedTuple):
    tokens: torch.Tensor
    event: torch.cuda.Event


def recorded(stream: torch.cuda.Stream) -> torch.cuda.Event:
    ev = torch.cuda.Event()
    stream.record_event(ev)
    return ev


class Bigram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.e = nn.Embedding(vocab, dim)
        self.o = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.o(self.e(ids))


class Speculator:
    def __init__(self, vocab=2000, k=4):
        self.k = k
        self.draft = Bigram(vocab, 64).cuda()
        self.target = Bigram(vocab, 1024).cuda()
        self.draft_stream = torch.cuda.Stream()
        self.target_stream = torch.cuda.Stream()
        for s in (self.draft_stream, self.target_stream):
            s.wait_stream(torch.cuda.current_stream())
        self.proposal = torch.empty(k, dtype=torch.long, device="cuda")
        self.last = torch.zeros((), dtype=torch.long, device="cuda")
        torch.cuda.current_stream().synchronize()

    def propose(self, verdict: "Handoff | None") -> Handoff:
        if verdict is not None:
            self.draft_stream.wait_event(verdict.event)
        with torch.cuda.stream(self.draft_stream):
            cur = self.last
            for i in range(self.k):
                self.proposal[i] = self.draft(cur).argmax(-1)
                cur = self.proposal[i]
        return Handoff(self.proposal, recorded(self.draft_stream))

    def verify(self, offer: Handoff) -> tuple[Handoff, list[int]]:
        self.target_stream.wait_event(offer.event)
        with torch.cuda.stream(self.target_stream):
            ctx = torch.cat([self.last.view(1), offer.tokens[:-1]])
            want = self.target(ctx).argmax(-1)
            same = (want == offer.tokens).cumprod(0)
            keep = int(same.sum())
            out = want[: min(keep + 1, self.k)].tolist()
            self.last.copy_(want[len(out) - 1])
        return Handoff(self.last, recorded(self.target_stream)), out

    @torch.inference_mode()
    def generate(self, n):
        text, verdict = [], None
        while len(text) < n:
            verdict, got = self.verify(self.propose(verdict))
            text.extend(got)
        return text[:n]


if __name__ == "__main__":
    print(Speculator().generate(64))
