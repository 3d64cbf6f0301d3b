"""Validation loss computed in shared scratch while training waits only when it must."""
import torch
from torch import nn


class ScratchMetric:
    def __init__(self, shape, device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.scratch = torch.empty(shape, device=device)

    @torch.no_grad()
    def mse(self, prediction, target):
        rows = prediction.shape[0]
        work = self.scratch[:rows]
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            torch.sub(prediction, target, out=work)
            work.square_()
            return work.mean().item()

    @torch.no_grad()
    def quantile(self, values, q):
        work = self.scratch.view(-1)[:values.numel()]
        torch.abs(values.reshape(-1), out=work)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            ordered, _ = work.sort()
        index = min(ordered.numel() - 1, int(q * ordered.numel()))
        with torch.cuda.stream(self.stream):
            return ordered[index].item()


def fit(steps, width, device):
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    metric = ScratchMetric((256, width), device)
    held = torch.randn(256, width, device=device)
    history = []
    for step in range(steps):
        x = torch.randn(256, width, device=device)
        loss = (model(x) - x.roll(1, 1)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if step % 20 == 0:
            with torch.no_grad():
                out = model(held)
            history.append((metric.mse(out, held.roll(1, 1)),
                            metric.quantile(model[0].weight.grad, 0.99)))
        optimizer.step()
    return history


if __name__ == "__main__":
    for row in fit(100, 64, torch.device("cuda", torch.cuda.current_device())):
        print(*row)
