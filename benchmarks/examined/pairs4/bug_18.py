"""Operator chain for lidar segmentation, one stream per operator."""
import torch
from torch import nn


class Flow:
    """Value that travels along the chain together with its completion marker."""

    def __init__(self, value):
        self.value = value
        self.marker = torch.cuda.current_stream().record_event()


class Operator:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    def enter(self, flow):
        self.stream.wait_event(flow.marker)
        flow.value.record_stream(self.stream)
        return flow.value

    def apply(self, value):
        return value

    def __call__(self, flow):
        with torch.cuda.stream(self.stream):
            return Flow(self.apply(self.enter(flow)))


class Project(Operator):
    def apply(self, points):
        r = points.norm(dim=1)
        yaw = torch.atan2(points[:, 1], points[:, 0])
        return torch.stack([r, yaw, points[:, 2]], 1)


class CachedGrid(Operator):
    """Keeps the grid of earlier sweeps with decay."""

    def __init__(self, size=512):
        self.grid = torch.zeros(size * size, device="cuda")
        self.size = size
        super().__init__()

    def enter(self, flow):
        self.grid.mul_(0.9)
        flow.value.record_stream(self.stream)
        return flow.value

    def apply(self, polar):
        u = (polar[:, 0] * 4).long().clamp(0, self.size - 1)
        v = ((polar[:, 1] + 3.15) * 80).long().clamp(0, self.size - 1)
        self.grid.index_add_(0, u * self.size + v, polar[:, 2])
        return self.grid.clone().view(1, 1, self.size, self.size)


class Segment(Operator):
    def __init__(self):
        self.net = nn.Conv2d(1, 4, 5, padding=2).cuda().requires_grad_(False)
        super().__init__()

    def apply(self, grid):
        return self.net(grid).argmax(1)


def main():
    chain = [Project(), CachedGrid(), Segment()]
    total = 0
    for _ in range(150):
        flow = Flow((torch.randn(100_000, 3) * 20).pin_memory().cuda(non_blocking=True))
        for op in chain:
            flow = op(flow)
        flow.marker.synchronize()
        total += int((flow.value == 1).sum())
    print(total)


if __name__ == "__main__":
    main()
