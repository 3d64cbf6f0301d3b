"""Training step fed from one page-locked staging block per tensor."""
import math

import numpy as np
import torch


class StagedTrainer:
    """`step` takes NumPy batches of a fixed shape and returns the loss as a float."""

    def __init__(self, model, batch_shape, classes, lr=1e-3, device="cuda:0"):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.loss_fn = torch.nn.CrossEntropyLoss()
        self.classes = classes
        self.copy_stream = torch.cuda.Stream(self.device)
        n = batch_shape[0]
        self.host_x = torch.empty(batch_shape, pin_memory=True)
        self.host_y = torch.empty(n, dtype=torch.int64, pin_memory=True)
        self.dev_x = torch.empty(batch_shape, device=self.device)
        self.dev_y = torch.empty(n, dtype=torch.int64, device=self.device)
        self.skipped = 0

    def _stage(self, x, y):
        self.host_x.numpy()[...] = x
        self.host_y.numpy()[...] = y
        current = torch.cuda.current_stream(self.device)
        self.copy_stream.wait_stream(current)
        with torch.cuda.stream(self.copy_stream):
            self.dev_x.copy_(self.host_x, non_blocking=True)
            self.dev_y.copy_(self.host_y, non_blocking=True)
        current.wait_stream(self.copy_stream)

    def _forward(self):
        try:
            return self.model(self.dev_x)
        except Exception:
            torch.cuda.synchronize(self.device)
            raise

    def step(self, x, y):
        self._stage(x, y)
        loss = self.loss_fn(self._forward(), self.dev_y)
        value = loss.item()
        if not math.isfinite(value):
            self.skipped += 1
            return value
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return value

    @torch.no_grad()
    def evaluate(self, x, y):
        self._stage(x, y)
        hits = (self._forward().argmax(-1) == self.dev_y).sum()
        return hits.item() / len(y)


def synthetic(batches, shape, classes, seed):
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((classes, *shape[1:]), dtype=np.float32)
    for _ in range(batches):
        y = rng.integers(0, classes, shape[0])
        noise = rng.standard_normal(shape, dtype=np.float32)
        yield centers[y] + 2.0 * noise, y


def main(classes=32, shape=(1024, 3, 32, 32)):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 128, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(classes),
    ).cuda()
    model(torch.zeros(shape, device="cuda"))
    trainer = StagedTrainer(model, shape, classes)
    losses = [trainer.step(x, y) for x, y in synthetic(200, shape, classes, 0)]
    accuracy = [trainer.evaluate(x, y) for x, y in synthetic(10, shape, classes, 0)]
    print(losses[-1], sum(accuracy) / len(accuracy), trainer.skipped)


if __name__ == "__main__":
    main()
