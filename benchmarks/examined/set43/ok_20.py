import queue
import threading
from collections import deque
from typing import Deque, List, Optional, Tuple

import numpy as np
import torch


class Pool:
    def __init__(self, count: int, numel: int):
        self.available: "queue.Queue[torch.Tensor]" = queue.Queue()
        for _ in range(count):
            self.available.put(torch.zeros(numel, pin_memory=True))


class Producer(threading.Thread):
    def __init__(self, pool: Pool, total: int):
        super().__init__(daemon=True)
        self.pool = pool
        self.total = total
        self.filled: "queue.Queue[Optional[torch.Tensor]]" = queue.Queue()

    def run(self):
        rng = np.random.default_rng(7)
        for _ in range(self.total):
            buf = self.pool.available.get()
            rng.standard_normal(out=buf.numpy(), dtype=np.float32)
            self.filled.put(buf)
        self.filled.put(None)


class Uploader:
    def __init__(self, pool: Pool):
        self.pool = pool
        self.stream = torch.cuda.Stream()
        self.in_flight: Deque[Tuple[torch.Tensor, torch.cuda.Event]] = deque()

    def reap(self, block: bool = False):
        while self.in_flight:
            buf, event = self.in_flight[0]
            if block:
                event.synchronize()
                block = False
            if not event.query():
                return
            self.in_flight.popleft()
            self.pool.available.put(buf)

    def upload(self, buf: torch.Tensor, splits: int) -> List[torch.Tensor]:
        with torch.cuda.stream(self.stream):
            parts = [p.cuda(non_blocking=True) for p in buf.chunk(splits)]
            event = self.stream.record_event()
        self.in_flight.append((buf, event))
        current = torch.cuda.current_stream()
        current.wait_event(event)
        for part in parts:
            part.record_stream(current)
        return parts


class Consumer:
    def __init__(self, pool: Pool, producer: Producer, width: int):
        self.producer = producer
        self.uploader = Uploader(pool)
        self.width = width
        self.weight = torch.randn(width, width, device="cuda") / width ** 0.5

    def next_buffer(self) -> Optional[torch.Tensor]:
        while True:
            self.uploader.reap()
            try:
                return self.producer.filled.get(timeout=0.01)
            except queue.Empty:
                self.uploader.reap(block=True)

    def run(self) -> float:
        state = torch.zeros(self.width, device="cuda")
        while (buf := self.next_buffer()) is not None:
            for part in self.uploader.upload(buf, splits=4):
                rows = part.view(-1, self.width)
                state = torch.tanh(state + (rows @ self.weight).mean(0))
        return state.norm().item()


def main():
    width, rows = 1024, 4096
    pool = Pool(3, width * rows)
    producer = Producer(pool, total=24)
    producer.start()
    print(Consumer(pool, producer, width).run())
    producer.join()


if __name__ == "__main__":
    main()
