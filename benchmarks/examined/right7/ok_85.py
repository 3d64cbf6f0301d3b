"""Auxiliary loss on its own stream, with a gradient watcher."""
import torch
from torch import nn


class SideLoss(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.probe = nn.Linear(dim, 1)
        self.stream = torch.cuda.Stream()

    def forward(self, feats: torch.Tensor) -> torch.Tensor:
        home = torch.cuda.current_stream()
        self.stream.wait_stream(home)
        with torch.cuda.stream(self.stream):
            feats.record_stream(self.stream)
            loss = self.probe(feats).square().mean()
        home.wait_stream(self.stream)
        loss.record_stream(home)
        return loss


class Trainer:
    def __init__(self):
        self.trunk = nn.Sequential(nn.Linear(64, 128), nn.ReLU()).cuda()
        self.head = nn.Linear(128, 10).cuda()
        self.aux = SideLoss().cuda()
        params = [*self.trunk.parameters(), *self.head.parameters(), *self.aux.parameters()]
        self.opt = torch.optim.SGD(params, lr=0.05)
        self.norms = []

    def _watch(self, grad: torch.Tensor):
        self.norms.append(grad.norm())

    def step(self, x, y):
        feats = self.trunk(x)
        feats.register_hook(self._watch)
        main = nn.functional.cross_entropy(self.head(feats), y)
        total = main + 0.1 * self.aux(feats)
        total.backward()
        self.opt.step()
        self.aux.stream.wait_stream(torch.cuda.current_stream())
        self.opt.zero_grad()
        return total.detach()


def main():
    trainer = Trainer()
    losses = []
    for _ in range(20):
        x = torch.randn(32, 64, device="cuda")
        y = torch.randint(10, (32,), device="cuda")
        losses.append(trainer.step(x, y))
    print(torch.stack(losses).mean().item(), torch.stack(trainer.norms).max().item())


if __name__ == "__main__":
    main()
