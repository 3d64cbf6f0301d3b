import queue
import threading

import torch


def tree_map(fn, obj):
    if isinstance(obj, torch.Tensor):
        return fn(obj)
    if isinstance(obj, dict):
        return {k: tree_map(fn, v) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(tree_map(fn, v) for v in obj)
    return obj


class Parcel:
    def __init__(self, batch, event):
        self._batch = batch
        self._event = event

    def open(self):
        stream = torch.cuda.current_stream()
        stream.wait_event(self._event)
        tree_map(lambda t: t.record_stream(stream), self._batch)
        return self._batch


class Feeder(threading.Thread):
    _END = object()

    def __init__(self, loader, device, depth=3):
        super().__init__(daemon=True)
        self.loader, self.device = loader, device
        self.out = queue.Queue(maxsize=depth)
        self.error = None

    def _ship(self, batch, stream):
        moved = tree_map(lambda t: t.pin_memory().to(self.device, non_blocking=True), batch)
        return Parcel(moved, stream.record_event())

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        try:
            with torch.cuda.stream(stream):
                for batch in self.loader:
                    self.out.put(self._ship(batch, stream))
        except Exception as exc:
            self.error = exc
        finally:
            self.out.put(self._END)

    def __iter__(self):
        self.start()
        while True:
            item = self.out.get()
            if item is self._END:
                break
            yield item.open()
        if self.error is not None:
            raise self.error


def evaluate(model, loader):
    total = torch.zeros((), device="cuda")
    with torch.no_grad():
        for batch in Feeder(loader, torch.device("cuda", 0)):
            logits = model(batch["input"]["ids"], batch["input"]["mask"])
            total += (logits.argmax(-1) == batch["label"]).sum()
    return total.item()
