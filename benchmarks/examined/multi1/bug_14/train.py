import torch
from torch import nn

from loop import BaseLoop
from mixins import SnapshotMixin


class Trainer(SnapshotMixin, BaseLoop):
    every = 50

    def setup(self):
        self.init_snapshots()

    def due(self, step):
        return step % self.every == 0

    def before_update(self, step):
        if self.due(step):
            self.snapshot_begin()

    def after_update(self, step):
        if self.due(step):
            self.snapshot_save(f"snap_{step:05d}.pt")

    def loss(self, batch):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)


def batches(n):
    for _ in range(n):
        yield torch.randn(256, 1024, device="cuda"), torch.randint(0, 50, (256,), device="cuda")


if __name__ == "__main__":
    layers = [nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 50)]
    print(Trainer(nn.Sequential(*layers).to("cuda"), 1e-4).fit(batches(200)))
