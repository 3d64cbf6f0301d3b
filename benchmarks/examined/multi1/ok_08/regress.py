import copy

import torch
from torch import nn

from trainer_base import Trainer


class ClippedTrainer(Trainer):
    lr = 3e-4
    clip = 1.0

    def compute_loss(self, batch):
        x, y = batch
        return nn.functional.smooth_l1_loss(self.model(x), y)

    def before_update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        super().before_update()


def batches(n, dim=32):
    w = torch.randn(dim, 1, device="cuda")
    for _ in range(n):
        x = torch.randn(512, dim, device="cuda")
        yield x, x @ w + 0.1 * torch.randn(512, 1, device="cuda")


def main():
    net = nn.Sequential(nn.Linear(32, 128), nn.SiLU(), nn.Linear(128, 1))
    tr = ClippedTrainer(net)
    tr.fit(batches(500))
    smooth = copy.deepcopy(tr.model)
    tr.shadow.copy_into(smooth)
    with torch.no_grad():
        for x, y in batches(1):
            print("raw", (tr.model(x) - y).abs().mean().item())
            print("avg", (smooth(x) - y).abs().mean().item())


if __name__ == "__main__":
    main()
