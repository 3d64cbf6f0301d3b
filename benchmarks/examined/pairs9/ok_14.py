"""Speculative decoding: the draft of the next window overlaps bookkeeping of this one."""
import torch
from torch import nn


class TokenModel(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.body = nn.Sequential(*[nn.Linear(dim, dim) for _ in range(depth)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


class Drafter:
    def __init__(self, model, k, batch):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.window = torch.zeros(batch, k, dtype=torch.long, device="cuda")
        self.drafted = torch.cuda.Event()
        self.verified = None

    def propose(self, last):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            token = last
            for j in range(self.window.shape[1]):
                token = self.model(token).argmax(-1)
                self.window[:, j] = token
            self.drafted.record()

    def proposal(self):
        torch.cuda.current_stream().wait_event(self.drafted)
        return self.window


class Speculator:
    def __init__(self, target, drafter):
        self.target = target
        self.drafter = drafter

    def verify(self):
        window = self.drafter.proposal()
        greedy = self.target(window).argmax(-1)
        match = (greedy[:, :-1] == window[:, 1:]).cumprod(-1).sum(-1)
        last = greedy.gather(1, match.unsqueeze(1)).squeeze(1)
        return last, match


@torch.inference_mode()
def main(batch=8, rounds=32, vocab=8000):
    drafter = Drafter(TokenModel(vocab, 128, 1).cuda(), k=4, batch=batch)
    spec = Speculator(TokenModel(vocab, 1024, 8).cuda(), drafter)
    last = torch.zeros(batch, dtype=torch.long, device="cuda")
    counts = torch.zeros(batch, dtype=torch.long, device="cuda")
    keep = [last]
    for _ in range(rounds):
        drafter.propose(last)
        last, accepted = spec.verify()
        keep.append(last)
        counts += accepted
    print(counts.tolist(), len(keep))


if __name__ == "__main__":
    main()
