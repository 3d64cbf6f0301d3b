import torch
from torch import nn

from mixins import NamedMixin, SideBranchMixin


def tower(cin, cout, k):
    return nn.Sequential(
        nn.Conv2d(cin, cin, k, padding=k // 2, groups=cin),
        nn.Conv2d(cin, cout, 1),
        nn.BatchNorm2d(cout),
        nn.SiLU(),
    )


class Detector(SideBranchMixin, NamedMixin, nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.local = tower(width, width, 3)
        self.wide = tower(width, width, 7)
        self.box = nn.Conv2d(width, 4, 1)
        self.score = nn.Conv2d(width, 1, 1)

    def forward(self, img):
        f = self.stem(img)
        self.fork("wide", self.wide, f)
        g = self.local(f)
        h = g + self.join("wide")
        self.fork("score", self.score, h)
        box = self.box(h).exp()
        return box, torch.sigmoid(self.join("score"))
