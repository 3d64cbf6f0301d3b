"""Weight-norm monitoring with CuPy reductions."""
import cupy as cp
import torch
import torch.nn as nn


class NormMonitor:
    def __init__(self, layers):
        self.layers = layers
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.views = [cp.from_dlpack(l.weight.detach()) for l in layers]
        self.norms = cp.zeros((1000, len(layers)), dtype=cp.float32)
        cp.cuda.Device().synchronize()

    def measure(self, step):
        with self.stream:
            for j, view in enumerate(self.views):
                self.norms[step, j] = cp.sqrt((view * view).sum())

    def report(self):
        self.stream.synchronize()
        return self.norms.get()


def main(steps=1000):
    model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=5e-2)
    monitor = NormMonitor([m for m in model if isinstance(m, nn.Linear)])
    for step in range(steps):
        x = torch.randn(64, 2048, device="cuda")
        opt.zero_grad()
        (model(x) - x).pow(2).mean().backward()
        opt.step()
        monitor.measure(step)
    print(monitor.report()[-1])


if __name__ == "__main__":
    main()
