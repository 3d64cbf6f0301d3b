import torch
import torch.nn.functional as F

from stage_base import Stage


class EdgeMap(Stage):
    def __init__(self, device="cuda"):
        super().__init__(device)
        k = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
        self.kernel = torch.stack([k, k.t()])[:, None].to(device)

    def prepare(self, item):
        return item.float().div(255.0).mean(dim=1, keepdim=True)

    def compute(self, item):
        g = F.conv2d(item, self.kernel, padding=1)
        return g.square().sum(dim=1).sqrt()

    def collect(self, out):
        return out.clamp_(0, 1)


class Histogram(Stage):
    depth = 3
    bins = 32

    def compute(self, item):
        idx = (item.flatten(1) * (self.bins - 1)).round().long()
        h = torch.zeros(item.shape[0], self.bins, device=item.device)
        return h.scatter_add_(1, idx, torch.ones_like(idx, dtype=h.dtype))

    def collect(self, out):
        return out / out.sum(dim=1, keepdim=True)
