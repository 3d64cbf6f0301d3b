import torch
import torch.nn as nn


class ToyLM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.mlp = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(torch.relu(self.mlp(self.emb(ids))))


class SpeculativeDecoder:
    def __init__(self, target, draft, k=4, bs=8):
        self.target, self.draft, self.k = target, draft, k
        self.last = torch.ones(bs, dtype=torch.long, device="cuda")
        self.proposal = torch.zeros(k, bs, dtype=torch.long, device="cuda")
        self.accepted = torch.zeros(bs, dtype=torch.long, device="cuda")
        self.draft_stream = torch.cuda.Stream()
        self.proposed = torch.cuda.Event()
        self.verified = torch.cuda.Event()
        self.verified.record()

    def _propose(self):
        with torch.cuda.stream(self.draft_stream):
            self.verified.wait()
            tok = self.last
            for i in range(self.k):
                tok = self.draft(tok).argmax(-1)
                self.proposal[i].copy_(tok)
            self.proposed.record()

    def _verify(self):
        self.proposed.wait()
        chain = torch.cat([self.last[None], self.proposal[:-1]])
        truth = self.target(chain.flatten()).argmax(-1).view_as(self.proposal)
        good = (truth == self.proposal).long().cumprod(0).sum(0)
        pick = good.clamp(max=self.k - 1)
        self.last.copy_(truth.gather(0, pick[None]).squeeze(0))
        self.accepted += good
        self.verified.record()

    @torch.no_grad()
    def run(self, rounds):
        for _ in range(rounds):
            self._propose()
            self._verify()
        return self.accepted.tolist()


def main():
    target, draft = ToyLM(4096, 512).cuda(), ToyLM(4096, 64).cuda()
    print(SpeculativeDecoder(target, draft).run(32))


if __name__ == "__main__":
    main()
