import argparse

import torch
from torch import nn

from decode import BucketedStep, HostSink


class Cell(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.gru = nn.Sequential(nn.Linear(2 * dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.head = nn.Linear(dim, vocab)

    @torch.no_grad()
    def forward(self, token, state):
        both = torch.cat([self.embed(token), state], dim=1)
        state = torch.tanh(state + self.gru(both))
        return self.head(state).argmax(1), state


def main(vocab=32000, dim=1024):
    cell = Cell(vocab, dim).cuda().eval()
    step = BucketedStep(cell, [16, 64, 256], dim)
    lengths = sorted((int(x) for x in torch.randint(8, 200, (256,))), reverse=True)
    token = torch.ones(256, dtype=torch.long, device="cuda")
    state = torch.randn(256, dim, device="cuda")
    sink = HostSink(256, step.stream)
    for row in step.generate(token, state, lengths):
        sink.put(row)
    text = sink.close()
    print(sum(len(t) for t in text), text[0][:10])


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--dim", type=int, default=1024)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
