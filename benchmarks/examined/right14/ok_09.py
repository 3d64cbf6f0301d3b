"""Background thread that decodes and uploads batches ahead of the trainer."""
from __future__ import annotations

import queue
import threading
from typing import Callable, Iterable, Iterator

import torch

_END = object()


class ThreadedUploader:
    def __init__(
        self,
        source: Iterable,
        decode: Callable[[object], dict[str, torch.Tensor]],
        device: torch.device,
        depth: int = 2,
    ) -> None:
        self.source = source
        self.decode = decode
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.queue: queue.Queue = queue.Queue(maxsize=depth)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _put(self, item) -> bool:
        while not self.stop.is_set():
            try:
                self.queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _work(self) -> None:
        torch.cuda.set_device(self.device)
        try:
            with torch.cuda.stream(self.stream):
                for record in self.source:
                    batch = self.decode(record)
                    moved = {
                        k: v.pin_memory().to(self.device, non_blocking=True)
                        for k, v in batch.items()
                    }
                    if "tokens" in moved:
                        moved["mask"] = moved["tokens"].ne(0)
                    done = torch.cuda.Event()
                    done.record()
                    if not self._put((moved, done)):
                        return
        except BaseException as exc:
            self._put(exc)
        else:
            self._put(_END)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        while True:
            item = self.queue.get()
            if item is _END or isinstance(item, BaseException):
                self.queue.put(item)
                if item is _END:
                    return
                raise item
            batch, done = item
            stream = torch.cuda.current_stream(self.device)
            done.wait(stream)
            for tensor in batch.values():
                tensor.record_stream(stream)
            yield batch

    def close(self) -> None:
        self.stop.set()
        self.thread.join()
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put(_END)


def fit(model: torch.nn.Module, source: Iterable, decode, device: torch.device) -> list[float]:
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    losses = []
    feed = ThreadedUploader(source, decode, device)
    try:
        for batch in feed:
            logits = model(batch["tokens"])
            loss = torch.nn.functional.cross_entropy(
                logits[batch["mask"]], batch["labels"][batch["mask"]]
            )
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.detach())
    finally:
        feed.close()
    return torch.stack(losses).tolist() if losses else []
