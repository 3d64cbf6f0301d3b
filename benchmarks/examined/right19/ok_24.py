"""Feature extraction: one reader thread, several GPU worker threads, recycled slots."""
import queue
import threading

import torch
import torch.nn as nn

BATCH, CH, SIZE = 32, 3, 128


class Slot:
    def __init__(self, ident, device):
        self.ident = ident
        self.staging = torch.empty(BATCH, CH, SIZE, SIZE, dtype=torch.uint8, pin_memory=True)
        self.frames = torch.empty(BATCH, CH, SIZE, SIZE, dtype=torch.uint8, device=device)
        self.loaded = torch.cuda.Event()
        self.released = torch.cuda.Event()
        self.number = -1


class Reader(threading.Thread):
    def __init__(self, device, count, idle, ready, workers):
        super().__init__(daemon=True)
        self.device, self.count = device, count
        self.idle, self.ready, self.workers = idle, ready, workers

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream()
        gen = torch.Generator().manual_seed(1)
        for number in range(self.count):
            slot = self.idle.get()
            slot.loaded.synchronize()
            slot.staging.random_(0, 256, generator=gen)
            slot.number = number
            stream.wait_event(slot.released)
            with torch.cuda.stream(stream):
                slot.frames.copy_(slot.staging, non_blocking=True)
                slot.loaded.record(stream)
            self.ready.put(slot)
        for _ in range(self.workers):
            self.ready.put(None)


class Worker(threading.Thread):
    def __init__(self, device, model, idle, ready, results):
        super().__init__(daemon=True)
        self.device, self.model = device, model
        self.idle, self.ready, self.results = idle, ready, results

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.inference_mode():
            while True:
                slot = self.ready.get()
                if slot is None:
                    break
                number = slot.number
                stream.wait_event(slot.loaded)
                x = slot.frames.to(torch.float32).div_(255)
                slot.released.record(stream)
                self.idle.put(slot)
                feats = self.model(x)
                self.results.put((number, feats.cpu()))


def backbone():
    return nn.Sequential(
        nn.Conv2d(CH, 32, 5, stride=2), nn.SiLU(),
        nn.Conv2d(32, 64, 3, stride=2), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 256))


def main(batches=300, workers=3, depth=5):
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    model = backbone().to(device).eval()
    idle, ready, results = queue.Queue(), queue.Queue(), queue.Queue()
    for i in range(depth):
        idle.put(Slot(i, device))
    torch.cuda.synchronize()

    reader = Reader(device, batches, idle, ready, workers)
    crew = [Worker(device, model, idle, ready, results) for _ in range(workers)]
    for t in [reader, *crew]:
        t.start()
    table = torch.empty(batches, BATCH, 256)
    for _ in range(batches):
        number, feats = results.get()
        table[number] = feats
    for t in [reader, *crew]:
        t.join()
    print(table.mean().item(), table.std().item())


if __name__ == "__main__":
    main()
