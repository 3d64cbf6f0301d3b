import torch
from torch import nn

from batcher import Batcher
from graphed import GraphedModule


class Ranker(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.relu(self.up(x))
        h = h + torch.relu(self.mid(h))
        return self.score(h).squeeze(1)


def main(count=65536, batch=4096, width=512):
    net = Ranker(width, 2048).to("cuda").eval()
    rows = torch.randn(count, width, device="cuda")
    batcher = Batcher(GraphedModule(net, rows[:batch]), batch)
    scores = torch.cat(batcher.run(rows))
    top = scores.topk(10).indices.tolist()
    print(batcher.launched, top)


if __name__ == "__main__":
    main()
