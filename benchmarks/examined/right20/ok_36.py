import torch
from torch import nn


class Shelf:
    """Pinned copies of all layers, one flat buffer each."""

    def __init__(self, layers):
        self.flat = []
        self.shapes = [p.shape for p in layers[0].parameters()]
        for layer in layers:
            flat = torch.cat([p.data.reshape(-1) for p in layer.parameters()])
            self.flat.append(flat.pin_memory())

    def __len__(self):
        return len(self.flat)


class Berth:
    def __init__(self, shelf, template):
        self.buf = torch.empty_like(shelf.flat[0], device="cuda")
        self.module = template
        self.loaded = torch.cuda.Event()
        self.free = torch.cuda.Event()
        off = 0
        for p in template.parameters():
            p.data = self.buf[off : off + p.numel()].view(p.shape)
            off += p.numel()
        self.free.record()


class Offloaded(nn.Module):
    def __init__(self, make, depth):
        super().__init__()
        self.shelf = Shelf([make() for _ in range(depth)])
        self.berths = [Berth(self.shelf, make()) for _ in range(2)]
        self.copy = torch.cuda.Stream()

    def _load(self, i):
        berth = self.berths[i % 2]
        self.copy.wait_event(berth.free)
        with torch.cuda.stream(self.copy):
            berth.buf.copy_(self.shelf.flat[i], non_blocking=True)
            berth.loaded.record(self.copy)

    @torch.no_grad()
    def forward(self, x):
        here = torch.cuda.current_stream()
        self._load(0)
        for i in range(len(self.shelf)):
            if i + 1 < len(self.shelf):
                self._load(i + 1)
            berth = self.berths[i % 2]
            here.wait_event(berth.loaded)
            x = berth.module(x)
            berth.free.record(here)
        return x


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + 0.1 * self.down(torch.relu(self.up(x)))


def main():
    net = Offloaded(lambda: Residual(512), depth=9)
    for seed in range(4):
        torch.manual_seed(seed)
        y = net(torch.randn(64, 512, device="cuda"))
        print(seed, y.norm().item())


if __name__ == "__main__":
    main()
