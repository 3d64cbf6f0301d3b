"""Overlapped decode loop: a forward thread one step behind the scheduler."""
import threading
from collections import deque
from dataclasses import dataclass
from queue import Queue

import torch
from torch import nn


@dataclass
class ScheduleBatch:
    input_ids: torch.Tensor
    slots: torch.Tensor
    ready: torch.cuda.Event


@dataclass
class BatchResult:
    batch: ScheduleBatch
    next_ids: torch.Tensor
    next_ids_cpu: torch.Tensor
    copy_done: torch.cuda.Event

    def resolve(self) -> list[int]:
        self.copy_done.synchronize()
        return self.next_ids_cpu.tolist()


class ForwardThread:
    def __init__(self, model: nn.Module, max_slots: int, device: torch.device):
        self.model = model
        self.device = device
        self.forward_stream = torch.cuda.Stream(device)
        self.future_ids = torch.zeros(max_slots + 1, dtype=torch.long, device=device)
        self.forward_stream.wait_stream(torch.cuda.current_stream(device))
        self.input_queue: Queue = Queue()
        self.output_queue: Queue = Queue()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    @torch.no_grad()
    def _loop(self):
        torch.cuda.set_device(self.device)
        with torch.cuda.stream(self.forward_stream):
            while True:
                batch = self.input_queue.get()
                if batch is None:
                    return
                self.forward_stream.wait_event(batch.ready)
                ids = self._resolve_future(batch.input_ids)
                next_ids = self.model(ids).argmax(dim=-1)
                self.future_ids[batch.slots] = next_ids
                host = torch.empty(next_ids.shape, dtype=next_ids.dtype, pin_memory=True)
                host.copy_(next_ids, non_blocking=True)
                copy_done = torch.cuda.Event()
                copy_done.record()
                self.output_queue.put(BatchResult(batch, next_ids, host, copy_done))

    def _resolve_future(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.where(ids < 0, self.future_ids[torch.clamp(-ids, min=0)], ids)


def event_loop(worker: ForwardThread, batch_size: int, steps: int) -> list[list[int]]:
    produced = []
    in_flight: deque[int] = deque()
    slots = torch.arange(1, batch_size + 1, device=worker.device)
    for step in range(steps):
        ids = torch.randint(0, 100, (batch_size,), device=worker.device) if step == 0 else -slots
        ready = torch.cuda.Event()
        ready.record()
        worker.input_queue.put(ScheduleBatch(ids, slots, ready))
        in_flight.append(step)
        if len(in_flight) > 1:
            in_flight.popleft()
            produced.append(worker.output_queue.get().resolve())
    while in_flight:
        in_flight.popleft()
        produced.append(worker.output_queue.get().resolve())
    worker.input_queue.put(None)
    worker.thread.join()
    return produced


if __name__ == "__main__":
    dev = torch.device("cuda", 0)
    net = nn.Sequential(nn.Embedding(100, 64), nn.Linear(64, 100)).to(dev)
    print(event_loop(ForwardThread(net, 64, dev), 16, 128)[-1])
