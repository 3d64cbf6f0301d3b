"""Bounded producer with acknowledgements from the consumer."""
import queue
import threading

import torch
from torch import nn


class Slot:
    def __init__(self, shape):
        self.host = torch.empty(shape, pin_memory=True)
        self.dev = torch.empty(shape, device="cuda")
        self.filled = torch.cuda.Event()
        self.drained = torch.cuda.Event()
        self.drained.record()


class Producer(threading.Thread):
    def __init__(self, n: int, shape, depth=3):
        super().__init__(daemon=True)
        self.n = n
        self.acks, self.full = queue.Queue(), queue.Queue()
        for _ in range(depth):
            self.acks.put(Slot(shape))
        self.stream = torch.cuda.Stream()

    def run(self):
        for i in range(self.n):
            slot = self.acks.get()
            slot.filled.synchronize()
            slot.host.fill_(i)
            self.stream.wait_event(slot.drained)
            with torch.cuda.stream(self.stream):
                slot.dev.copy_(slot.host, non_blocking=True)
                slot.filled.record()
            self.full.put(slot)
        self.full.put(None)

    def __iter__(self):
        while (slot := self.full.get()) is not None:
            torch.cuda.current_stream().wait_event(slot.filled)
            try:
                yield slot.dev
            finally:
                slot.drained.record()
                self.acks.put(slot)


@torch.no_grad()
def main():
    net = nn.Linear(256, 4).cuda()
    producer = Producer(40, (64, 256))
    producer.start()
    acc = torch.zeros(4, device="cuda")
    for batch in producer:
        acc += net(batch).mean(0)
    producer.join()
    print(acc.tolist())


if __name__ == "__main__":
    main()
