"""A graph captured with a parallel branch, replayed on a private stream."""
import torch
from torch import nn


class TwoTower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.right = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))


class CapturedTowers:
    def __init__(self, towers, batch, width, device):
        self.towers = towers.eval()
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.branch = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.stream), torch.no_grad():
            self.x = torch.zeros(batch, width, device=device)
            for _ in range(3):
                self._forked()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self._forked()

    def _forked(self):
        here = torch.cuda.current_stream(self.device)
        self.branch.wait_stream(here)
        with torch.cuda.stream(self.branch):
            self.right = self.towers.right(self.x)
        left = self.towers.left(self.x)
        here.wait_stream(self.branch)
        self.right.record_stream(here)
        return left * self.right

    @torch.no_grad()
    def __call__(self, x):
        caller = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            self.x.copy_(x)
            self.graph.replay()
            y = self.y.clone()
        caller.wait_stream(self.stream)
        y.record_stream(caller)
        return y


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    towers = TwoTower(256).to(device)
    captured = CapturedTowers(towers, 64, 256, device)
    for _ in range(5):
        x = torch.randn(64, 256, device=device)
        with torch.no_grad():
            expected = towers.left(x) * towers.right(x)
        torch.testing.assert_close(captured(x), expected, rtol=1e-3, atol=1e-3)


if __name__ == "__main__":
    main()
