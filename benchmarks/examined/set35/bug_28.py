"""Bucketed gradient exchange fed by two compute lanes and a communication thread."""
import queue
import threading
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.distributed as dist
import torch.nn as nn


class EventRing:
    """Creating events is slow under load, so a fixed set is cycled through."""

    def __init__(self, size: int = 5):
        self._events = [torch.cuda.Event() for _ in range(size)]
        self._next = 0

    def take(self) -> torch.cuda.Event:
        event = self._events[self._next]
        self._next = (self._next + 1) % len(self._events)
        return event


@dataclass
class Bucket:
    flat: torch.Tensor
    params: List[nn.Parameter]


class ExchangeThread(threading.Thread):
    def __init__(self, device: int, group: dist.ProcessGroup):
        super().__init__(daemon=True)
        self.device = device
        self.group = group
        self.stream = torch.cuda.Stream(device=device)
        self.inbox: "queue.Queue[Optional[Tuple[Bucket, torch.cuda.Event]]]" = queue.Queue()

    def run(self) -> None:
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.stream):
            while True:
                item = self.inbox.get()
                if item is None:
                    self.inbox.task_done()
                    return
                bucket, ready = item
                self.stream.wait_event(ready)
                dist.all_reduce(bucket.flat, group=self.group)
                self.inbox.task_done()


class LaneTrainer:
    """Each lane owns a replica of the head and its own stream."""

    def __init__(self, device: int, width: int = 2048, buckets: int = 24):
        self.ring = EventRing()
        self.lanes = [torch.cuda.Stream(device=device) for _ in range(2)]
        self.buckets: List[Bucket] = []
        self.inputs: List[torch.Tensor] = []
        for _ in range(buckets):
            p = nn.Parameter(torch.randn(width, width, device=device) * 0.02)
            self.buckets.append(Bucket(torch.zeros(width * width, device=device), [p]))
        self.exchange = ExchangeThread(device, dist.new_group())
        self.exchange.start()
        torch.cuda.synchronize(device)

    def _fill(self, bucket: Bucket, x: torch.Tensor) -> None:
        with torch.no_grad():
            p = bucket.params[0]
            y = torch.relu(x @ p)
            torch.matmul(x.T, y, out=bucket.flat.view_as(p))
            bucket.flat.div_(x.shape[0])

    def backward(self, x: torch.Tensor) -> None:
        main = torch.cuda.current_stream()
        for lane in self.lanes:
            lane.wait_stream(main)
        for i, bucket in enumerate(self.buckets):
            lane = self.lanes[i % 2]
            with torch.cuda.stream(lane):
                self._fill(bucket, x)
                ready = self.ring.take()
                ready.record(lane)
            self.exchange.inbox.put((bucket, ready))
        self.exchange.inbox.join()
        for s in (*self.lanes, self.exchange.stream):
            main.wait_stream(s)

    @torch.no_grad()
    def update(self, lr: float) -> None:
        for bucket in self.buckets:
            p = bucket.params[0]
            p.add_(bucket.flat.view_as(p), alpha=-lr / dist.get_world_size())


def main() -> None:
    dist.init_process_group("nccl")
    device = dist.get_rank() % torch.cuda.device_count()
    torch.cuda.set_device(device)
    trainer = LaneTrainer(device)
    for _ in range(50):
        x = torch.randn(8192, 2048, device="cuda")
        trainer.backward(x)
        trainer.update(1e-3)
    trainer.exchange.inbox.put(None)
    trainer.exchange.join()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
