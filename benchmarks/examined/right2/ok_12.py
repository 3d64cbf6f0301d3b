import queue
import threading
from typing import Iterable, NamedTuple, Optional

import torch
import torch.nn as nn


class Ready(NamedTuple):
    tensors: dict
    event: torch.cuda.Event


class ThreadedUploader(threading.Thread):
    """Uploads batches on its own stream and hands them over with an event."""

    def __init__(self, source: Iterable[dict], device: torch.device, depth: int = 2):
        super().__init__(daemon=True)
        self.source = source
        self.device = device
        self.out: "queue.Queue[Optional[Ready]]" = queue.Queue(maxsize=depth)
        self.error: Optional[BaseException] = None
        self._halt = threading.Event()

    def run(self):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        try:
            with torch.cuda.stream(stream):
                for sample in self.source:
                    if self._halt.is_set():
                        break
                    tensors = {}
                    for name, value in sample.items():
                        pinned = value.pin_memory()
                        tensors[name] = pinned.to(self.device, non_blocking=True)
                    tensors["mask"] = (tensors["tokens"] != 0)
                    self.out.put(Ready(tensors, stream.record_event()))
        except BaseException as exc:
            self.error = exc
        finally:
            self.out.put(None)

    def close(self):
        self._halt.set()

    def __iter__(self):
        while (item := self.out.get()) is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(item.event)
            for tensor in item.tensors.values():
                tensor.record_stream(stream)
            yield item.tensors
        if self.error is not None:
            raise self.error


def run_epoch(model: nn.Module, source, optimizer, device=torch.device("cuda:0")):
    uploader = ThreadedUploader(source, device)
    uploader.start()
    total = torch.zeros((), device=device)
    try:
        for batch in uploader:
            logits = model(batch["tokens"])
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1), batch["labels"].flatten(), reduction="none"
            )
            loss = (loss * batch["mask"].flatten()).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
    finally:
        uploader.close()
    return total.item()
