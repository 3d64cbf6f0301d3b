"""Hand optimizer states from a producer thread to the GPU in chunks."""
import threading
from queue import Queue

import torch


class SharedChunk:
    def __init__(self, numel):
        self.memory = torch.zeros(numel, pin_memory=True)
        self.full = threading.Semaphore(0)
        self.empty = threading.Semaphore(1)
        self.table = None


class Producer(threading.Thread):
    def __init__(self, chunk, items):
        super().__init__(daemon=True)
        self.chunk, self.items = chunk, items

    def run(self):
        for key, tensor in self.items:
            self.chunk.empty.acquire()
            n = tensor.numel()
            self.chunk.memory[:n].copy_(tensor.reshape(-1))
            self.chunk.table = (key, n, tuple(tensor.shape))
            self.chunk.full.release()
        self.chunk.empty.acquire()
        self.chunk.table = None
        self.chunk.full.release()


class Installer:
    def __init__(self, chunk):
        self.chunk = chunk
        self.stream = torch.cuda.Stream()
        self.state = {}

    def receive(self):
        while True:
            self.chunk.full.acquire()
            if self.chunk.table is None:
                break
            key, n, shape = self.chunk.table
            own = self.chunk.memory[:n].clone().view(shape)
            self.chunk.empty.release()
            with torch.cuda.stream(self.stream):
                self.state[key] = own.pin_memory().to("cuda", non_blocking=True)
        here = torch.cuda.current_stream()
        here.wait_stream(self.stream)
        for value in self.state.values():
            value.record_stream(here)
        return self.state


def apply_state(weights, state, lr=0.1):
    for key, moment in state.items():
        weights[key].add_(moment, alpha=-lr)
    return weights


def main(entries=24, width=1024):
    items = [(f"m{i}", torch.full((width, width), float(i))) for i in range(entries)]
    weights = {k: torch.zeros(width, width, device="cuda") for k, _ in items}
    chunk = SharedChunk(width * width)
    producer = Producer(chunk, items)
    producer.start()
    state = Installer(chunk).receive()
    producer.join()
    apply_state(weights, state)
    worst = max(float((weights[k] + 0.1 * v[0, 0].item()).abs().max()) for k, v in items)
    print("entries", len(state), "max error", worst)


if __name__ == "__main__":
    main()
