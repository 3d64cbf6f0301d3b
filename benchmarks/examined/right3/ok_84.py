"""Rollout worker that receives weights in the background."""
import queue
import threading
from typing import Optional

import torch
import torch.distributed as dist
from torch import nn


class WeightSyncThread(threading.Thread):
    """Broadcasts into a buffer copy of the parameters on its own stream."""

    def __init__(self, params: list[nn.Parameter], group, device: torch.device):
        super().__init__(daemon=True)
        self.buffers = [p.detach().clone() for p in params]
        self.group, self.device = group, device
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        self.requests: queue.Queue = queue.Queue()
        self.arrived: queue.Queue = queue.Queue()

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream), torch.no_grad():
            while True:
                request = self.requests.get()
                if request is None:
                    return
                version, released = request
                if released is not None:
                    self.stream.wait_event(released)
                for buf in self.buffers:
                    dist.broadcast(buf, src=0, group=self.group)
                self.arrived.put((version, self.stream.record_event()))


class RolloutWorker:
    def __init__(self, model: nn.Module, group, device: torch.device):
        self.model = model
        self.params = list(model.parameters())
        self.sync = WeightSyncThread(self.params, group, device)
        self.released: Optional[torch.cuda.Event] = None
        self.version = 0
        self.sync.start()

    def request(self, version: int) -> None:
        self.sync.requests.put((version, self.released))

    @torch.no_grad()
    def adopt(self, block: bool) -> bool:
        try:
            version, ready = self.sync.arrived.get(block=block)
        except queue.Empty:
            return False
        current = torch.cuda.current_stream()
        current.wait_event(ready)
        for p, buf in zip(self.params, self.sync.buffers):
            p.copy_(buf)
        self.released = current.record_event()
        self.version = version
        return True

    @torch.no_grad()
    def generate(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        for _ in range(steps):
            x = torch.tanh(self.model(x))
        return x

    def close(self) -> None:
        self.sync.requests.put(None)
        self.sync.join()


def main(versions: int = 8):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    worker = RolloutWorker(nn.Linear(512, 512).to(device), dist.group.WORLD, device)
    x = torch.randn(64, 512, device=device)
    for v in range(1, versions + 1):
        worker.request(v)
        adopted = False
        for _ in range(4):
            x = worker.generate(x, 8)
            adopted = adopted or worker.adopt(block=False)
        if not adopted:
            worker.adopt(block=True)
    worker.close()
    torch.cuda.synchronize()
    print(dist.get_rank(), worker.version, x.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
