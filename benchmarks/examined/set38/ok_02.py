"""Feature extraction on the main thread, compression and upload on a worker thread."""
import queue
import threading

import torch


class Item:
    __slots__ = ("index", "tensor", "ready")

    def __init__(self, index, tensor, ready):
        self.index = index
        self.tensor = tensor
        self.ready = ready


class Compressor(threading.Thread):
    def __init__(self, maxsize, out):
        super().__init__(daemon=True)
        self.inbox = queue.Queue(maxsize)
        self.stream = torch.cuda.Stream()
        self.out = out

    def put(self, index, tensor):
        ready = torch.cuda.Event()
        ready.record()
        self.inbox.put(Item(index, tensor, ready))

    def close(self):
        self.inbox.put(None)
        self.join()

    def compress(self, x):
        scale = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-6) / 127.0
        q = torch.round(x / scale).to(torch.int8)
        return q, scale

    def run(self):
        with torch.cuda.stream(self.stream):
            while True:
                item = self.inbox.get()
                if item is None:
                    return
                self.stream.wait_event(item.ready)
                q, scale = self.compress(item.tensor)
                item.tensor.record_stream(self.stream)
                self.out[item.index] = (q.cpu(), scale.cpu())
                item.tensor = None


class Extractor:
    def __init__(self, dim, depth, sink):
        g = torch.Generator(device="cuda").manual_seed(0)
        self.weights = [torch.randn(dim, dim, device="cuda", generator=g) * dim ** -0.5
                        for _ in range(depth)]
        self.sink = sink

    def __call__(self, index, x):
        for w in self.weights:
            x = torch.tanh(x @ w)
        self.sink.put(index, x)


class Store:
    def __init__(self):
        self.items = {}

    def __setitem__(self, key, value):
        self.items[key] = value

    def summary(self):
        total = 0.0
        for q, scale in self.items.values():
            total += (q.float() * scale).mean().item()
        return len(self.items), total


def main():
    store = Store()
    worker = Compressor(4, store)
    worker.start()
    extract = Extractor(2048, 8, worker)
    for i in range(32):
        extract(i, torch.randn(1024, 2048, device="cuda"))
    worker.close()
    print(store.summary())


if __name__ == "__main__":
    main()
