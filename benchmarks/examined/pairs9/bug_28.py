"""Trainer that uploads the following batch while the current one is computed."""
import numpy as np
import torch
from torch import nn


class Corpus:
    def __init__(self, n, seed=0):
        self.data = np.random.default_rng(seed).integers(0, 8000, n, dtype=np.int64)
        self.cursor = 0

    def read(self, out):
        need = out.size
        if self.cursor + need > self.data.size:
            self.cursor = 0
        out[...] = self.data[self.cursor:self.cursor + need].reshape(out.shape)
        self.cursor += need


class Feeder:
    def __init__(self, corpus, batch, seq):
        self.corpus = corpus
        self.host = torch.empty(batch, seq, dtype=torch.int64, pin_memory=True)
        self.device = [torch.empty(batch, seq, dtype=torch.int64, device="cuda") for _ in range(2)]
        self.stream = torch.cuda.Stream()
        self.turn = 0

    def schedule(self):
        self.corpus.read(self.host.numpy())
        self.turn ^= 1
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.device[self.turn].copy_(self.host, non_blocking=True)

    def current(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.device[self.turn]


class LM(nn.Module):
    def __init__(self, vocab=8000, dim=512):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.net = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.net(self.embed(ids[:, :-1]))
        return nn.functional.cross_entropy(self.head(h).flatten(0, 1), ids[:, 1:].flatten())


def train(steps=200):
    feeder = Feeder(Corpus(5_000_000), batch=64, seq=257)
    model = LM().cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    history = []
    feeder.schedule()
    for _ in range(steps):
        ids = feeder.current()
        feeder.schedule()
        loss = model(ids)
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss.item())
    return history


if __name__ == "__main__":
    print(train()[-1])
