"""Loading replicas in a pool; results travel with their event."""
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch


class Loaded(NamedTuple):
    tensor: torch.Tensor
    ready: torch.cuda.Event

    def use(self) -> torch.Tensor:
        current = torch.cuda.current_stream()
        current.wait_event(self.ready)
        self.tensor.record_stream(current)
        return self.tensor


class ShardLoader:
    def __init__(self, workers=4):
        self.pool = ThreadPoolExecutor(workers)
        self.futures = {}

    @staticmethod
    def _load(host: torch.Tensor, scale: float) -> Loaded:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            dev = host.to("cuda", non_blocking=True).mul_(scale)
            ready = stream.record_event()
        return Loaded(dev, ready)

    def schedule(self, name: str, host: torch.Tensor, scale=1.0):
        self.futures[name] = self.pool.submit(self._load, host, scale)

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.futures[name].result().use()


def main():
    hosts = {f"w{i}": torch.randn(1024, 1024).pin_memory() for i in range(8)}
    loader = ShardLoader()
    for name, host in hosts.items():
        loader.schedule(name, host, 0.02)
    x = torch.randn(32, 1024, device="cuda")
    for i in range(8):
        x = torch.relu(x @ loader[f"w{i}"])
    print(x.sum().item())


if __name__ == "__main__":
    main()
