import torch
from torch import nn

from scaler import LossScale


def copy_task(batch, length, vocab):
    x = torch.randint(1, vocab, (batch, length), device="cuda")
    return x, x.roll(1, dims=1)


class Tagger(nn.Module):
    def __init__(self, vocab=64, dim=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def main(steps=400):
    net = Tagger().to("cuda")
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    scale = LossScale()
    for step in range(steps):
        x, y = copy_task(32, 24, 64)
        loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        scale.scale(loss).backward()
        norm = scale.step(opt, max_norm=1.0)
        if step % 40 == 0:
            print(step, loss.item(), norm, scale.value)
    print("skipped", scale.skipped)


if __name__ == "__main__":
    main()
