import torch
import torch.nn as nn

from ops import correlate


class FlowNet(nn.Module):
    def __init__(self, overlap, width=64, radius=4):
        super().__init__()
        self.overlap = overlap
        self.radius = radius
        self.encode = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=4, padding=3), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )
        self.context = nn.Conv2d(width, width, 3, padding=1)
        self.head = nn.Conv2d((2 * radius + 1) ** 2 + width, 2, 3, padding=1)

    def forward(self, first, second):
        a, b = self.encode(torch.stack([first, second]))
        cost = self.overlap(lambda p, q: correlate(p, q, self.radius), a, b)
        ctx = self.context(a[None])[0].relu()
        return self.head(torch.cat([cost.result(), ctx])[None])[0]
