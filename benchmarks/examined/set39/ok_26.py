"""Compute loop with a thread that spills finished blocks to host memory."""
import queue
import threading

import torch

_local = threading.local()


def bind_stream(stream):
    _local.stream = stream
    torch.cuda.set_stream(stream)


def my_stream():
    stream = getattr(_local, "stream", None)
    return stream if stream is not None else torch.cuda.current_stream()


class SpillThread(threading.Thread):
    def __init__(self, shape):
        super().__init__(daemon=True)
        self.inbox = queue.Queue(maxsize=4)
        self.ready = threading.Event()
        self.buffer = torch.empty(shape, pin_memory=True)
        self.sums = []

    def run(self):
        bind_stream(torch.cuda.Stream())
        self.ready.set()
        while True:
            item = self.inbox.get()
            if item is None:
                break
            self._spill(*item)
            del item

    def _spill(self, block, produced):
        stream = my_stream()
        stream.wait_event(produced)
        with torch.cuda.stream(stream):
            self.buffer.copy_(block, non_blocking=True)
        stream.synchronize()
        self.sums.append(float(self.buffer.sum()))


class Recurrence:
    def __init__(self, width):
        self.weight = torch.randn(width, width, device="cuda") / width ** 0.5
        self.bias = torch.zeros(width, device="cuda")

    def advance(self, state):
        with torch.cuda.stream(my_stream()):
            nxt = torch.tanh(state @ self.weight + self.bias)
            self.bias.add_(nxt.mean(0), alpha=0.01)
        return nxt


def main(width=2048, steps=10):
    cell = Recurrence(width)
    state = torch.randn(width, width, device="cuda")
    torch.cuda.synchronize()

    bind_stream(torch.cuda.Stream())
    spill = SpillThread((width, width))
    spill.start()
    spill.ready.wait()

    for _ in range(steps):
        state = cell.advance(state)
        produced = torch.cuda.Event()
        produced.record(my_stream())
        spill.inbox.put((state, produced))
    spill.inbox.put(None)
    spill.join()
    torch.cuda.synchronize()
    print("blocks", len(spill.sums), "last", round(spill.sums[-1], 3))


if __name__ == "__main__":
    main()
