import argparse
import random

import torch
from torch import nn

from serving import Dispatcher, GraphRegistry


class Ranker(nn.Module):
    def __init__(self, features, hidden, depth):
        super().__init__()
        self.inp = nn.Linear(features, hidden)
        self.mid = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.relu(self.inp(x))
        for layer in self.mid:
            h = h + torch.relu(layer(h))
        return self.out(h)


def main(features=1024, hidden=8192):
    model = Ranker(features, hidden, 6).cuda().half().eval()
    registry = GraphRegistry(model, [128, 512, 2048], features, torch.float16)
    dispatcher = Dispatcher(registry)
    rng = random.Random(0)
    scores = []
    for _ in range(100):
        sizes = [rng.choice([100, 400, 1800]) for _ in range(4)]
        requests = [torch.randn(n, features) for n in sizes]
        tickets = [dispatcher.submit(r) for r in requests]
        scores.extend(t.result().mean().item() for t in tickets)
    print(sum(scores) / len(scores))


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=8192)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
