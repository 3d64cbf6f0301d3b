from collections import deque

import torch
from torch import nn


class SyncedDeallocation:
    """Holds tensors used on a side stream until the allocating stream is ordered behind it."""

    def __init__(self, lag: int):
        self.lag = lag
        self.pending: deque[tuple[torch.cuda.Event, list[torch.Tensor]]] = deque()

    def defer(self, event: torch.cuda.Event, tensors: list[torch.Tensor]):
        self.pending.append((event, tensors))
        while len(self.pending) > self.lag:
            self._release()

    def _release(self):
        event, tensors = self.pending.popleft()
        torch.cuda.current_stream().wait_event(event)
        tensors.clear()

    def drain(self):
        while self.pending:
            self._release()


class SideStreamStatistics:
    """Running activation moments, reduced on a low-priority stream during training."""

    def __init__(self, names: list[str], device: torch.device, lag: int = 4):
        self.stream = torch.cuda.Stream(device, priority=0)
        self.index = {name: i for i, name in enumerate(names)}
        with torch.cuda.stream(self.stream):
            self.moments = torch.zeros(len(names), 3, dtype=torch.float64, device=device)
        self.dealloc = SyncedDeallocation(lag)

    def observe(self, name: str, activation: torch.Tensor):
        row = self.index[name]
        snapshot = activation.detach().to(torch.bfloat16)
        produced = torch.cuda.current_stream().record_event()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(produced)
            x = snapshot.float()
            self.moments[row, 0] += x.numel()
            self.moments[row, 1] += x.sum(dtype=torch.float64)
            self.moments[row, 2] += x.square_().sum(dtype=torch.float64)
            used = self.stream.record_event()
        self.dealloc.defer(used, [snapshot])

    def summary(self) -> dict[str, tuple[float, float]]:
        self.dealloc.drain()
        self.stream.synchronize()
        table = self.moments.cpu()
        result = {}
        for name, row in self.index.items():
            n, s, sq = table[row].tolist()
            mean = s / max(n, 1.0)
            result[name] = (mean, max(sq / max(n, 1.0) - mean * mean, 0.0) ** 0.5)
        return result


class ObservedMLP(nn.Module):
    def __init__(self, dim: int, depth: int, device: torch.device):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim, device=device) for _ in range(depth))
        self.statistics = SideStreamStatistics([f"layer{i}" for i in range(depth)], device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            self.statistics.observe(f"layer{i}", x)
        return x


def train(steps: int = 200, dim: int = 2048, depth: int = 16, batch: int = 512):
    device = torch.device("cuda")
    torch.manual_seed(0)
    model = ObservedMLP(dim, depth, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(steps):
        x = torch.randn(batch, dim, device=device)
        loss = nn.functional.mse_loss(model(x), torch.tanh(x))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return model.statistics.summary(), loss.item()


if __name__ == "__main__":
    stats, final = train()
    for name, (mean, std) in stats.items():
        print(f"{name}: {mean:+.4f} +- {std:.4f}")
    print("loss", final)
