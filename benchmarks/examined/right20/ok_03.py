import queue
import threading

import torch


class Slot:
    def __init__(self, shape):
        self.host = torch.empty(shape, pin_memory=True)
        self.dev = torch.empty(shape, device="cuda")
        self.filled = torch.cuda.Event()
        self.used = torch.cuda.Event()


class Ingest:
    def __init__(self, shape, slots=3):
        self.free = queue.Queue()
        self.ready = queue.Queue()
        self.copy = torch.cuda.Stream()
        self.compute = torch.cuda.Stream()
        self.weight = torch.randn(shape[1], 32, device="cuda")
        self.total = torch.zeros(32, device="cuda")
        for _ in range(slots):
            self.free.put(Slot(shape))
        torch.cuda.synchronize()

    def produce(self, batches):
        for batch in batches:
            slot = self.free.get()
            slot.filled.synchronize()
            slot.host.copy_(batch)
            with torch.cuda.stream(self.copy):
                self.copy.wait_event(slot.used)
                slot.dev.copy_(slot.host, non_blocking=True)
                slot.filled.record(self.copy)
            self.ready.put(slot)
        self.ready.put(None)

    def consume(self):
        while True:
            slot = self.ready.get()
            if slot is None:
                break
            with torch.cuda.stream(self.compute):
                self.compute.wait_event(slot.filled)
                self.total.add_((slot.dev @ self.weight).relu().sum(0))
                slot.used.record(self.compute)
            self.free.put(slot)

    def run(self, batches):
        a = threading.Thread(target=self.produce, args=(batches,), daemon=True)
        b = threading.Thread(target=self.consume, daemon=True)
        a.start()
        b.start()
        b.join()
        a.join()
        torch.cuda.current_stream().wait_stream(self.compute)
        return self.total.tolist()


def random_batches(n, shape):
    for i in range(n):
        g = torch.Generator().manual_seed(i)
        yield torch.randn(shape, generator=g)


if __name__ == "__main__":
    shape = (512, 128)
    print(Ingest(shape).run(random_batches(40, shape))[:4])
