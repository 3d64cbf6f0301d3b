import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Dict, List, Optional

import torch


class ShardWriter:
    """One stream and one pinned arena for each worker thread."""

    def __init__(self, device: torch.device):
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.arena: Dict[str, torch.Tensor] = {}

    def _host_copy(self, name: str, t: torch.Tensor) -> torch.Tensor:
        host = self.arena.get(name)
        if host is None or host.shape != t.shape or host.dtype != t.dtype:
            host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            self.arena[name] = host
        host.copy_(t, non_blocking=True)
        return host

    def write(self, shard: Dict[str, torch.Tensor], ready: torch.cuda.Event, path: str) -> str:
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            hosts = {name: self._host_copy(name, t) for name, t in shard.items()}
            self.stream.synchronize()
        tmp = path + ".tmp"
        torch.save(hosts, tmp)
        os.replace(tmp, path)
        return path


class EmaCheckpointer:
    """Averages the weights on the device; shards of the average go to disk in threads."""

    def __init__(self, model: torch.nn.Module, directory: str, workers: int = 2, decay=0.999):
        self.model = model
        self.decay = decay
        self.directory = directory
        self.average = {n: p.detach().clone() for n, p in model.named_parameters()}
        device = next(iter(self.average.values())).device
        names = sorted(self.average)
        self.shards: List[List[str]] = [names[i::workers] for i in range(workers)]
        self.writers = [ShardWriter(device) for _ in range(workers)]
        self.pool = ThreadPoolExecutor(workers)
        self.pending: Optional[List[Future]] = None
        os.makedirs(directory, exist_ok=True)

    def wait(self) -> None:
        if self.pending is not None:
            pending, self.pending = self.pending, None
            for future in pending:
                future.result()

    @torch.no_grad()
    def update(self) -> None:
        self.wait()
        for name, p in self.model.named_parameters():
            self.average[name].lerp_(p.detach(), 1.0 - self.decay)

    def save(self, step: int) -> None:
        self.wait()
        ready = torch.cuda.Event()
        ready.record()
        self.pending = [
            self.pool.submit(
                writer.write,
                {n: self.average[n] for n in shard},
                ready,
                os.path.join(self.directory, f"ema_{step}_{i}.pt"),
            )
            for i, (writer, shard) in enumerate(zip(self.writers, self.shards))
        ]

    def close(self) -> None:
        self.wait()
        self.pool.shutdown()


def train(model, batches, optimizer, criterion, directory, every=200) -> None:
    ema = EmaCheckpointer(model, directory)
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad(set_to_none=True)
        criterion(model(x), y).backward()
        optimizer.step()
        ema.update()
        if step % every == 0:
            ema.save(step)
    ema.close()
