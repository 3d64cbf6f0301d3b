"""Two-branch detector head captured into one graph; the branches run side by side."""
import torch
from torch import nn


class BranchedHead(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.stem = nn.Linear(dim, dim)
        self.boxes = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))
        self.classes = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 80))
        self.aux = torch.cuda.Stream()

    def forward(self, x):
        main = torch.cuda.current_stream()
        h = self.stem(x)
        self.aux.wait_stream(main)
        with torch.cuda.stream(self.aux):
            cls = self.classes(h)
        h.record_stream(self.aux)
        box = self.boxes(h)
        main.wait_stream(self.aux)
        cls.record_stream(main)
        return torch.cat((box, cls.sigmoid()), dim=-1)


class Captured:
    def __init__(self, module, example, warmup=3):
        self.x = example.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(warmup):
                module(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.y = module(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.detach().clone()


def test_captured_matches_eager():
    head = BranchedHead(256).cuda().eval()
    x = torch.randn(1000, 256, device="cuda")
    captured = Captured(head, torch.zeros_like(x))
    with torch.no_grad():
        want = head(x)
    got = captured(x)
    torch.testing.assert_close(got, want)


if __name__ == "__main__":
    test_captured_matches_eager()
