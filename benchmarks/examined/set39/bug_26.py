"""Layer loop with a background thread that swaps activations to host memory."""
import queue
import threading

import torch

_active = None


def use_stream(stream):
    global _active
    _active = stream
    torch.cuda.set_stream(stream)


def active_stream():
    return _active if _active is not None else torch.cuda.current_stream()


class Merger:
    """Adds the partial result of the neighbour shard."""

    def __init__(self, partial):
        self.partial = partial

    def all_merge(self, buf, stream=None):
        with torch.cuda.stream(stream or active_stream()):
            buf.add_(self.partial)
        return buf


class SwapWorker(threading.Thread):
    def __init__(self, shape):
        super().__init__(daemon=True)
        self.inbox = queue.Queue()
        self.started_up = threading.Event()
        self.host = torch.empty(shape, pin_memory=True)
        self.checksum = 0.0

    def run(self):
        self.stream = torch.cuda.Stream()
        use_stream(self.stream)
        self.started_up.set()
        while True:
            item = self.inbox.get()
            if item is None:
                return
            tensor, done = item
            self.stream.wait_event(done)
            self.host.copy_(tensor, non_blocking=True)
            self.stream.synchronize()
            self.checksum += float(self.host[0, 0])


class Model:
    def __init__(self, width, depth):
        self.weights = [torch.randn(width, width, device="cuda") / width ** 0.5 for _ in range(depth)]
        self.merger = Merger(torch.randn(width, width, device="cuda") * 0.01)

    def forward(self, x):
        for w in self.weights:
            h = x @ w
            h = self.merger.all_merge(h)
            x = torch.tanh(h)
        return x


def main(width=4096, depth=8, steps=4):
    model = Model(width, depth)
    x = torch.randn(width, width, device="cuda")
    torch.cuda.synchronize()

    use_stream(torch.cuda.Stream())
    worker = SwapWorker((width, width))
    worker.start()
    worker.started_up.wait()

    kept = []
    for _ in range(steps):
        y = model.forward(x)
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream())
        worker.inbox.put((y, done))
        kept.append(y)
    worker.inbox.put(None)
    worker.join()
    torch.cuda.synchronize()
    print("checksum", worker.checksum)


if __name__ == "__main__":
    main()
