import torch


class Boundary:
    """Double-buffered activations between two devices."""

    def __init__(self, shape, src, dst, depth=2):
        self.src = [torch.empty(shape, device=src) for _ in range(depth)]
        self.dst = [torch.empty(shape, device=dst) for _ in range(depth)]
        self.produced, self.copied, self.consumed = [], [], []
        for _ in range(depth):
            with torch.cuda.device(src):
                self.produced.append(torch.cuda.Event())
            with torch.cuda.device(dst):
                self.copied.append(torch.cuda.Event())
                self.consumed.append(torch.cuda.Event())
        self.depth = depth
        torch.cuda.synchronize(src)
        torch.cuda.synchronize(dst)


class FirstStage:
    def __init__(self, layer, boundary, device):
        self.layer, self.boundary = layer, boundary
        self.stream = torch.cuda.Stream(device)

    def run(self, i, x):
        k = i % self.boundary.depth
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.boundary.copied[k])
            self.boundary.src[k].copy_(self.layer(x.to(self.stream.device, non_blocking=True)))
            self.boundary.produced[k].record(self.stream)


class SecondStage:
    def __init__(self, layer, boundary, device):
        self.layer, self.boundary = layer, boundary
        self.pull, self.compute = torch.cuda.Stream(device), torch.cuda.Stream(device)

    def run(self, i):
        b, k = self.boundary, i % self.boundary.depth
        with torch.cuda.stream(self.pull):
            self.pull.wait_event(b.consumed[k])
            self.pull.wait_event(b.produced[k])
            with torch.cuda.device(b.src[k].device):
                torch.cuda.current_stream().wait_event(b.produced[k])
            b.dst[k].copy_(b.src[k], non_blocking=True)
            b.copied[k].record(self.pull)
        with torch.cuda.stream(self.compute):
            self.compute.wait_event(b.copied[k])
            out = self.layer(b.dst[k]).sum()
            b.consumed[k].record(self.compute)
        return out


@torch.no_grad()
def main(n=32):
    d0, d1 = torch.device("cuda:0"), torch.device("cuda:1")
    first, second = torch.nn.Linear(1024, 1024).to(d0), torch.nn.Linear(1024, 8).to(d1)
    boundary = Boundary((64, 1024), d0, d1)
    a, b = FirstStage(first, boundary, d0), SecondStage(second, boundary, d1)
    data = [torch.randn(64, 1024).pin_memory() for _ in range(n)]
    outs = []
    for i, x in enumerate(data):
        a.run(i, x)
        outs.append(b.run(i))
    b.compute.synchronize()
    return [o.item() for o in outs]
