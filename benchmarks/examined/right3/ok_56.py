"""Row log flushed with one device synchronize per window."""
import torch
from torch import nn


class WindowedLog:
    def __init__(self, window: int, width: int):
        self.rows = torch.empty(window, width, pin_memory=True)
        self.filled = 0
        self.records: list[list[float]] = []

    def append(self, row: torch.Tensor) -> None:
        self.rows[self.filled].copy_(row, non_blocking=True)
        self.filled += 1
        if self.filled == self.rows.shape[0]:
            self.flush()

    def flush(self) -> None:
        if not self.filled:
            return
        torch.cuda.synchronize()
        self.records.extend(self.rows[: self.filled].tolist())
        self.filled = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.flush()


class GradientNoise:
    """Tracks gradient moments of every layer on a side stream."""

    def __init__(self, model: nn.Module, log: WindowedLog):
        self.params = [p for p in model.parameters() if p.ndim == 2]
        self.log = log
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def observe(self) -> None:
        compute = torch.cuda.current_stream()
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            stats = [torch.stack([p.grad.mean(), p.grad.std()]) for p in self.params]
            self.log.append(torch.cat(stats))
        compute.wait_stream(self.stream)


def main():
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    with WindowedLog(window=25, width=8) as log:
        noise = GradientNoise(model, log)
        for _ in range(110):
            x = torch.randn(64, 256, device="cuda")
            (model(x) - x).abs().mean().backward()
            noise.observe()
            opt.step()
            opt.zero_grad(set_to_none=True)
    print(len(log.records), log.records[-1])


if __name__ == "__main__":
    main()
