"""Captured decode step fed by a transfer stream, results drained by a third one."""
import torch
import torch.nn as nn


class StepModel(nn.Module):
    def __init__(self, dim=1024, depth=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


class CapturedStep:
    def __init__(self, model, batch, dim):
        self.x = torch.zeros(batch, dim, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(2):
                model(self.x)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = model(self.x)

    def __call__(self, staged):
        self.x.copy_(staged)
        self.graph.replay()
        return self.y


class Feeder:
    def __init__(self, batch, dim, depth=3):
        self.lane = torch.cuda.Stream()
        self.host = [torch.randn(batch, dim).pin_memory() for _ in range(depth)]
        self.dev = [torch.empty(batch, dim, device="cuda") for _ in range(depth)]
        self.filled = [torch.cuda.Event() for _ in range(depth)]
        self.emptied = [torch.cuda.Event() for _ in range(depth)]

    def fill(self, i):
        k = i % len(self.dev)
        with torch.cuda.stream(self.lane):
            self.lane.wait_event(self.emptied[k])
            self.dev[k].copy_(self.host[k], non_blocking=True)
            self.filled[k].record()
        return k

    def take(self, k):
        torch.cuda.current_stream().wait_event(self.filled[k])
        return self.dev[k]

    def done_with(self, k):
        self.emptied[k].record()


class Drain:
    def __init__(self, batch, dim):
        self.lane = torch.cuda.Stream()
        self.out = torch.zeros(batch, dim, pin_memory=True)
        self.moved = torch.cuda.Event()

    def before_overwrite(self):
        torch.cuda.current_stream().wait_event(self.moved)

    def push(self, y):
        self.lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.lane):
            self.out.copy_(y, non_blocking=True)
            self.moved.record()

    def read(self):
        self.moved.synchronize()
        return self.out.sum().item()


@torch.inference_mode()
def main(batch=64, dim=1024, steps=50):
    step = CapturedStep(StepModel(dim).cuda().eval(), batch, dim)
    feeder, drain = Feeder(batch, dim), Drain(batch, dim)
    torch.cuda.synchronize()
    checks = []
    k = feeder.fill(0)
    for i in range(steps):
        upcoming = feeder.fill(i + 1)
        drain.before_overwrite()
        y = step(feeder.take(k))
        feeder.done_with(k)
        drain.push(y)
        if i % 10 == 9:
            checks.append(drain.read())
        k = upcoming
    torch.cuda.synchronize()
    print(checks)


if __name__ == "__main__":
    main()
