"""Gradient statistics in CuPy next to a PyTorch training loop."""
import cupy as cp
import torch
import torch.nn as nn


class HistogramProbe:
    def __init__(self, bins=64):
        self.stream = cp.cuda.Stream()
        self.counts = cp.zeros(bins, dtype=cp.int64)
        self.edges = cp.linspace(-1e-3, 1e-3, bins + 1)

    def observe(self, grad):
        view = cp.from_dlpack(grad.detach().reshape(-1))
        with self.stream:
            hist, _ = cp.histogram(view, bins=self.edges)
            self.counts += hist

    def result(self):
        self.stream.synchronize()
        return cp.asnumpy(self.counts)


def main():
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    probe = HistogramProbe()
    for step in range(300):
        x = torch.randn(256, 512, device="cuda")
        opt.zero_grad(set_to_none=False)
        model(x).pow(2).mean().backward()
        if step % 10 == 0:
            probe.observe(model[0].weight.grad)
        opt.step()
    print(probe.result())


if __name__ == "__main__":
    main()
