"""Scalars of a training run are moved to the host in rows and read in batches."""
import torch
from torch import nn


class MetricBoard:
    """``push`` never stops the host; ``flush`` returns the rows pushed since the last one."""

    def __init__(self, names, capacity, device):
        self.names = list(names)
        self.device = torch.device(device)
        self.rows = torch.zeros(capacity, len(self.names), pin_memory=True)
        self.stream = torch.cuda.Stream(device=self.device)
        with torch.cuda.stream(self.stream):
            self.written = torch.zeros((), dtype=torch.int64, device=self.device)
        self.count = 0
        self.total = 0
        self.history = []

    def push(self, **values):
        if self.count == self.rows.shape[0]:
            self.flush()
        row = torch.stack([values[name].detach().float() for name in self.names])
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self.rows[self.count].copy_(row, non_blocking=True)
            self.written.add_(1)
        row.record_stream(self.stream)
        self.count += 1
        self.total += 1

    def flush(self):
        with torch.cuda.stream(self.stream):
            written = int(self.written.item())
        if written != self.total:
            raise RuntimeError(f"{self.total - written} rows did not arrive")
        table = self.rows[: self.count].numpy().copy()
        self.count = 0
        self.history.extend(dict(zip(self.names, map(float, row))) for row in table)
        return table

    def averages(self, last):
        rows = self.history[-last:]
        return {n: sum(r[n] for r in rows) / max(len(rows), 1) for n in self.names}


class Trainer:
    def __init__(self, hidden=2048, depth=8, device="cuda"):
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(hidden, hidden), nn.GELU()]
        self.model = nn.Sequential(*layers, nn.Linear(hidden, 1)).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.board = MetricBoard(["loss", "grad_norm", "param_norm"], 64, device)
        self.hidden, self.device = hidden, device

    def _param_norm(self):
        squares = [p.detach().square().sum() for p in self.model.parameters()]
        return torch.stack(squares).sum().sqrt()

    def train_step(self, x, y):
        loss = (self.model(x).squeeze(-1) - y).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        grad_norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.board.push(loss=loss, grad_norm=grad_norm, param_norm=self._param_norm())

    def fit(self, steps, report=50):
        for step in range(1, steps + 1):
            x = torch.randn(256, self.hidden, device=self.device)
            self.train_step(x, x[:, 0])
            if step % report == 0:
                self.board.flush()
                print(step, self.board.averages(report))


if __name__ == "__main__":
    Trainer().fit(200)
