"""Training metrics land in a pinned ring that is read once per window."""
import torch
from torch import nn


class MetricRing:
    def __init__(self, names, window):
        self.names = names
        self.window = window
        self.rows = torch.zeros(window, len(names)).pin_memory()
        self.stream = torch.cuda.Stream()
        self.step = 0
        self.history = []

    def push(self, **values):
        row = self.rows[self.step % self.window]
        packed = torch.stack([values[n].detach().float() for n in self.names])
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            row.copy_(packed, non_blocking=True)
        packed.record_stream(self.stream)
        self.step += 1
        if self.step % self.window == 0:
            self._drain(self.window)

    def _drain(self, count):
        torch.cuda.synchronize()
        self.history.extend(dict(zip(self.names, r)) for r in self.rows[:count].tolist())

    def close(self):
        rest = self.step % self.window
        if rest:
            self._drain(rest)
        return self.history


def main(steps=250):
    model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256)).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    metrics = MetricRing(["loss", "grad_norm"], window=32)
    for _ in range(steps):
        x = torch.randn(128, 256, device="cuda")
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        metrics.push(loss=loss, grad_norm=norm)
    history = metrics.close()
    assert len(history) == steps
    print(history[-1])


if __name__ == "__main__":
    main()
