import queue
import threading

import torch


class CompletionWatcher:
    """Delivers device results to host callbacks in submission order."""

    def __init__(self, rows, width, slots=4, device="cuda"):
        self.device = torch.device(device, torch.cuda.current_device())
        self.stream = torch.cuda.Stream(self.device)
        self.free = queue.SimpleQueue()
        for _ in range(slots):
            self.free.put(torch.empty(rows, width, pin_memory=True))
        self.pending = queue.SimpleQueue()
        self.errors = []
        self.thread = threading.Thread(target=self._loop, name="completions")
        self.thread.start()

    def submit(self, result, callback):
        buffer = self.free.get()
        current = torch.cuda.current_stream(self.device)
        snapshot = result.detach().clone()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            view = buffer[: result.shape[0]]
            view.copy_(snapshot, non_blocking=True)
            event = self.stream.record_event()
        snapshot.record_stream(self.stream)
        self.pending.put((event, buffer, result.shape[0], callback))

    def _loop(self):
        while True:
            item = self.pending.get()
            if item is None:
                return
            event, buffer, count, callback = item
            event.synchronize()
            try:
                callback(buffer[:count].clone())
            except Exception as exc:
                self.errors.append(exc)
            finally:
                self.free.put(buffer)

    def close(self):
        if self.thread is not None:
            self.pending.put(None)
            self.thread.join()
            self.thread = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class TopScores:
    def __init__(self, keep):
        self.keep = keep
        self.values = torch.empty(0)

    def add(self, scores):
        merged = torch.cat([self.values, scores.flatten()])
        self.values = merged.topk(min(self.keep, merged.numel())).values


def score(x, weight):
    return torch.softmax(x @ weight, dim=1)


def main():
    top = TopScores(16)
    weight = torch.randn(256, 64, device="cuda")
    with CompletionWatcher(512, 64) as watcher:
        for step in range(50):
            rows = 512 if step % 3 else 100
            out = score(torch.randn(rows, 256, device="cuda"), weight)
            watcher.submit(out, top.add)
        watcher.submit(score(torch.randn(8, 256, device="cuda"), weight), lambda _: 1 / 0)
    print(top.values.tolist())
    print([type(exc).__name__ for exc in watcher.errors])


if __name__ == "__main__":
    main()
