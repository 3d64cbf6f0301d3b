import torch
from torch import nn

from lanes import CellLoop
from sender import Meter, device_groups, metered
from tokenizer_thread import TokenWriter


def corpus(n):
    for i in range(n):
        yield [f"document {i} line {j} " * 8 for j in range(16)]


class Bag(nn.Module):
    def __init__(self, vocab=257, dim=512):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, ids, length):
        h = self.emb(ids[:length]).mean(0)
        return torch.tanh(self.out(h))


@torch.no_grad()
def main():
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    loop = CellLoop(n=2, capacity=1 << 16)
    writer = TokenWriter(corpus(100), loop)
    net = Bag().to(device)
    writer.start()
    acc = torch.zeros(512, device=device)
    meter = Meter()
    groups = device_groups(loop, device, torch.cuda.Stream(device))
    for ids, length in metered(groups, meter):
        acc += net(ids, length)
    writer.join()
    print(acc.norm().item(), meter.groups, meter.mean)


if __name__ == "__main__":
    main()
