from typing import Iterator, List, Optional

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def send_to_device(data, device, non_blocking: bool = False):
    if isinstance(data, torch.Tensor):
        return data.to(device, non_blocking=non_blocking)
    if isinstance(data, (list, tuple)):
        return type(data)(send_to_device(t, device, non_blocking) for t in data)
    if isinstance(data, dict):
        return {k: send_to_device(v, device, non_blocking) for k, v in data.items()}
    return data


class DataLoaderShard:
    def __init__(self, loader: DataLoader, device: torch.device, non_blocking: bool = True):
        self.loader = loader
        self.device = device
        self.non_blocking = non_blocking

    def __iter__(self) -> Iterator:
        iterator = iter(self.loader)
        current = next(iterator, None)
        while current is not None:
            batch = send_to_device(current, self.device, non_blocking=self.non_blocking)
            current = next(iterator, None)
            yield batch


class OffloadedEMA:
    """Exponential average kept in host memory, fed through one device staging tensor."""

    def __init__(self, params: List[nn.Parameter], decay: float):
        self.params = params
        self.decay = decay
        numel = sum(p.numel() for p in params)
        self.staging = torch.empty(numel, device=params[0].device)
        self.host_new = torch.empty(numel, pin_memory=True)
        self.ema = torch.cat([p.detach().reshape(-1).cpu() for p in params])
        self.stream = torch.cuda.Stream()
        self.done: Optional[torch.cuda.Event] = None

    @torch.no_grad()
    def update(self) -> None:
        self.collect()
        torch.cat([p.detach().reshape(-1) for p in self.params], out=self.staging)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.host_new.copy_(self.staging, non_blocking=True)
            self.done = torch.cuda.Event()
            self.done.record()

    def collect(self) -> None:
        if self.done is None:
            return
        self.done.synchronize()
        self.done = None
        self.ema.mul_(self.decay).add_(self.host_new, alpha=1 - self.decay)


def train(epochs: int = 2) -> float:
    device = torch.device("cuda")
    dataset = TensorDataset(torch.randn(65536, 512), torch.randint(0, 10, (65536,)))
    loader = DataLoaderShard(DataLoader(dataset, batch_size=512, shuffle=True, pin_memory=True, num_workers=2), device)
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ema = OffloadedEMA(list(model.parameters()), 0.999)
    for _ in range(epochs):
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            ema.update()
    ema.collect()
    return float(ema.ema.abs().mean())
