"""Contrastive training: an encoder captured with make_graphed_callables embeds two views of each batch."""
import torch
import torch.nn.functional as F
from torch import nn


class MemoryBank:
    def __init__(self, steps):
        self.steps = steps
        self.keys = []

    def push(self, z):
        self.keys.append(z.detach())
        self.keys = self.keys[-self.steps:]

    def negatives(self):
        return torch.cat(self.keys) if self.keys else None


class Encoder(nn.Module):
    def __init__(self, din, dout):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(din, 1024), nn.ReLU(), nn.Linear(1024, dout))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


def info_nce(q, k, negatives, t=0.1):
    pos = (q * k).sum(-1, keepdim=True)
    logits = pos if negatives is None else torch.cat((pos, q @ negatives.t()), dim=1)
    target = torch.zeros(len(q), dtype=torch.long, device=q.device)
    return F.cross_entropy(logits / t, target)


class Trainer:
    def __init__(self, din=256, dout=128, batch=512):
        self.encoder = Encoder(din, dout).cuda()
        for p in self.encoder.parameters():
            p.grad = torch.zeros_like(p)
        self.opt = torch.optim.SGD(self.encoder.parameters(), lr=1e-2)
        sample = torch.randn(batch, din, device="cuda")
        self.embed = torch.cuda.make_graphed_callables(self.encoder, (sample,))
        self.bank = MemoryBank(8)

    def step(self, view):
        q = self.embed(view)
        loss = info_nce(q, q.detach().roll(1, 0), self.bank.negatives())
        self.opt.zero_grad(set_to_none=False)
        loss.backward()
        self.opt.step()
        self.bank.push(q)
        return loss.detach()


def main():
    trainer = Trainer()
    total = torch.zeros((), device="cuda")
    for _ in range(200):
        total += trainer.step(torch.randn(512, 256, device="cuda"))
    print((total / 200).item())


if __name__ == "__main__":
    main()
