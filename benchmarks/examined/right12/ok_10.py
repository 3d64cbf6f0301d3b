import queue
import threading

import torch


class BackgroundLoader:
    """Uploads batches from a worker thread on its own stream."""

    _END = object()

    def __init__(self, make_batches, device, depth=4):
        self.make_batches = make_batches
        self.device = device
        self.items = queue.Queue(maxsize=depth)
        self.stop = threading.Event()
        self.stream = torch.cuda.Stream(device)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _put(self, item):
        while not self.stop.is_set():
            try:
                self.items.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _run(self):
        try:
            torch.cuda.set_device(self.device)
            with torch.cuda.stream(self.stream):
                for host in self.make_batches():
                    batch = {}
                    for name, value in host.items():
                        batch[name] = value.pin_memory().to(self.device, non_blocking=True)
                    event = torch.cuda.Event()
                    event.record(self.stream)
                    if not self._put((batch, event)):
                        return
            self._put((self._END, None))
        except Exception as exc:
            self._put((exc, None))

    def __iter__(self):
        if self.stop.is_set():
            raise RuntimeError("loader is closed")
        try:
            while True:
                batch, event = self.items.get()
                if batch is self._END:
                    return
                if isinstance(batch, Exception):
                    raise batch
                current = torch.cuda.current_stream(self.device)
                current.wait_event(event)
                for value in batch.values():
                    value.record_stream(current)
                yield batch
        finally:
            self.close()

    def close(self):
        self.stop.set()
        self.thread.join()


def batches(count, fail_at=None):
    gen = torch.Generator().manual_seed(0)
    for index in range(count):
        if index == fail_at:
            raise OSError(f"shard {index} is unreadable")
        x = torch.randn(256, 128, generator=gen)
        yield {"x": x, "y": x.sum(1, keepdim=True), "mask": torch.rand(256, 1, generator=gen) > 0.1}


def fit(loader, weight, lr=1e-3, limit=None):
    for step, batch in enumerate(loader):
        error = (batch["x"] @ weight - batch["y"]) * batch["mask"]
        weight = weight - lr * batch["x"].t() @ error / error.shape[0]
        if limit is not None and step + 1 == limit:
            break
    return weight


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    weight = torch.zeros(128, 1, device=device)
    weight = fit(BackgroundLoader(lambda: batches(200), device), weight)
    weight = fit(BackgroundLoader(lambda: batches(200), device), weight, limit=7)
    try:
        fit(BackgroundLoader(lambda: batches(50, fail_at=9), device), weight)
    except OSError as exc:
        print("stopped:", exc)
    print((weight - 1).abs().mean().item())


if __name__ == "__main__":
    main()
