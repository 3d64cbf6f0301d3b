"""Two-GPU pipeline: statistics of the second stage are kept on its device."""
import torch
from torch import nn


class Stage(nn.Module):
    def __init__(self, width, depth, device):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.to(device)

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


class RunningMoment:
    """Second moment of activations, accumulated off the critical path."""

    def __init__(self, width, device):
        self.device = torch.device(device)
        self.total = torch.zeros(width, width, device=self.device)
        self.side = torch.cuda.Stream(device=self.device)
        self.rows = 0

    def add(self, acts):
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            self.total.add_(acts.T @ acts)
        acts.record_stream(self.side)
        self.rows += acts.shape[0]

    def drain(self):
        torch.cuda.current_stream().wait_stream(self.side)
        moment = self.total / max(self.rows, 1)
        self.total.zero_()
        self.rows = 0
        return moment


class TwoStage:
    def __init__(self, width=4096):
        self.first = Stage(width, 4, "cuda:0").eval()
        self.second = Stage(width, 2, "cuda:1").eval()
        self.moment = RunningMoment(width, "cuda:1")

    @torch.inference_mode()
    def __call__(self, x):
        h = self.first(x).to("cuda:1", non_blocking=True)
        out = self.second(h)
        self.moment.add(out)
        return out

    @torch.inference_mode()
    def report(self):
        m = self.moment.drain()
        return m.diagonal().mean(), m.abs().max()


def main(epochs=3, batches=8, rows=2048, width=4096):
    torch.cuda.set_device(0)
    with torch.inference_mode():
        model = TwoStage(width)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    for epoch in range(epochs):
        for _ in range(batches):
            x = torch.randn(rows, width, device="cuda:0")
            model(x)
        mean, peak = model.report()
        print(epoch, float(mean), float(peak))


if __name__ == "__main__":
    main()
