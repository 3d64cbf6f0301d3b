"""Gradient statistics per micro-batch are gathered beside the accumulation, with two events."""
import torch
from torch import nn


class GradientMonitor:
    """Keeps mean and mean square of the accumulated gradient over micro-batches."""

    def __init__(self, params, device):
        self.params = [p for p in params if p.requires_grad]
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(device=self.device)
        self.ready = torch.cuda.Event()
        self.done = torch.cuda.Event()
        count = len(self.params)
        with torch.cuda.stream(self.stream):
            self.mean = torch.zeros(count, device=self.device)
            self.square = torch.zeros(count, device=self.device)
        self.samples = 0

    @torch.no_grad()
    def observe(self):
        """Call after a backward pass, on the stream that ran it."""
        grads = [p.grad for p in self.params]
        self.ready.record(torch.cuda.current_stream(self.device))
        self.stream.wait_event(self.ready)
        with torch.cuda.stream(self.stream):
            means = torch.stack([g.mean() for g in grads])
            squares = torch.stack([g.square().mean() for g in grads])
            self.samples += 1
            self.mean.lerp_(means, 1.0 / self.samples)
            self.square.lerp_(squares, 1.0 / self.samples)
            self.done.record(self.stream)

    def before_change(self):
        """Call before the gradients are changed or dropped."""
        torch.cuda.current_stream(self.device).wait_event(self.done)

    def noise_scale(self):
        with torch.cuda.stream(self.stream):
            variance = (self.square - self.mean.square()).clamp_min_(0).sum()
            return (variance / self.square.sum().clamp_min(1e-12)).item()


class Accumulator:
    def __init__(self, model, micro_batches, lr=1e-3):
        self.model = model
        self.micro_batches = micro_batches
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.monitor = GradientMonitor(model.parameters(), next(model.parameters()).device)

    def _loss(self, x, y):
        return nn.functional.mse_loss(self.model(x), y) / self.micro_batches

    def step(self, batches):
        total = torch.zeros((), device=self.monitor.device)
        for x, y in batches:
            loss = self._loss(x, y)
            self.monitor.before_change()
            loss.backward()
            self.monitor.observe()
            total += loss.detach()
        self.monitor.before_change()
        nn.utils.clip_grad_value_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total


def batches(count, size, width, device):
    for _ in range(count):
        x = torch.randn(size, width, device=device)
        yield x, torch.tanh(x.roll(1, dims=-1))


def main(steps=100, width=1024, device="cuda"):
    model = nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, 4 * width), nn.GELU(),
        nn.Linear(4 * width, width),
    ).to(device)
    trainer = Accumulator(model, micro_batches=4)
    for step in range(steps):
        loss = trainer.step(batches(4, 256, width, device))
        if step % 20 == 19:
            print(step, loss.item(), trainer.monitor.noise_scale())


if __name__ == "__main__":
    main()
