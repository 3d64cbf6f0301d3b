"""Feature pyramid with lateral projections on a side stream, captured once per resolution."""
import torch
from torch import nn


class Pyramid(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(dim, dim, 3, stride=2, padding=1) for _ in range(depth))
        self.lateral = nn.ModuleList(nn.Conv2d(dim, dim, 1) for _ in range(depth))
        self.side = torch.cuda.Stream()

    def forward(self, x):
        main = torch.cuda.current_stream()
        maps = []
        for down, lateral in zip(self.down, self.lateral):
            x = down(x).relu()
            self.side.wait_stream(main)
            with torch.cuda.stream(self.side):
                maps.append(lateral(x))
            x = x + x.mean(dim=(2, 3), keepdim=True)
        main.wait_stream(self.side)
        for m in maps:
            m.record_stream(main)
        return [m.flatten(2) for m in maps]


class PyramidCache:
    def __init__(self, net):
        self.net = net.eval()
        self.entries = {}

    @torch.no_grad()
    def _capture(self, shape):
        image = torch.zeros(shape, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.net(image)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            maps = self.net(image)
        return graph, image, maps

    def __call__(self, image):
        key = tuple(image.shape)
        if key not in self.entries:
            self.entries[key] = self._capture(key)
        graph, slot, maps = self.entries[key]
        slot.copy_(image)
        graph.replay()
        return [m.clone() for m in maps]


def main():
    cache = PyramidCache(Pyramid(64, 4).cuda())
    for size in (256, 384, 256):
        maps = cache(torch.randn(1, 64, size, size, device="cuda"))
        print(size, [float(m.mean()) for m in maps])


if __name__ == "__main__":
    main()
