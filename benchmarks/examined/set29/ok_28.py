"""Overlap scheduler in two threads: the scheduler thread fills per-step
metadata, the model thread consumes it in order."""
import queue
import threading

import torch


class StepSlot:
    def __init__(self, batch, device):
        self.host = torch.zeros(batch, dtype=torch.int64).pin_memory()
        self.dev = torch.zeros(batch, dtype=torch.int64, device=device)
        self.uploaded = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class MetadataProducer(threading.Thread):
    def __init__(self, free, ready, steps):
        super().__init__(daemon=True)
        self.free, self.ready, self.steps = free, ready, steps
        self.stream = torch.cuda.Stream()

    def run(self):
        for step in range(self.steps):
            slot = self.free.get()
            slot.uploaded.synchronize()
            slot.host.fill_(step)
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(slot.consumed)
                slot.dev.copy_(slot.host, non_blocking=True)
                slot.uploaded.record(self.stream)
            self.ready.put(slot)
        self.ready.put(None)


class ModelWorker(threading.Thread):
    def __init__(self, free, ready, dim, device):
        super().__init__(daemon=True)
        self.free, self.ready = free, ready
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.table = torch.randn(4096, dim, device=device)
            self.state = torch.zeros(dim, device=device)
        self.result = None

    def run(self):
        with torch.no_grad(), torch.cuda.stream(self.stream):
            while True:
                slot = self.ready.get()
                if slot is None:
                    break
                self.stream.wait_event(slot.uploaded)
                rows = self.table.index_select(0, slot.dev % 4096)
                self.state.mul_(0.9).add_(rows.mean(dim=0))
                slot.consumed.record(self.stream)
                self.free.put(slot)
            self.result = self.state.cpu()


def main(steps=200, batch=256, depth=3):
    device = torch.device("cuda")
    free, ready = queue.Queue(), queue.Queue()
    for _ in range(depth):
        free.put(StepSlot(batch, device))
    torch.cuda.synchronize()
    producer = MetadataProducer(free, ready, steps)
    worker = ModelWorker(free, ready, 512, device)
    worker.start()
    producer.start()
    producer.join()
    worker.join()
    print(worker.result[:4])


if __name__ == "__main__":
    main()
