"""Background thread that decodes samples and uploads them ahead of the consumer."""
from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch


class Uploaded(NamedTuple):
    data: torch.Tensor
    label: torch.Tensor
    ready: torch.cuda.Event


class _Failure(NamedTuple):
    error: BaseException


_END = object()


class UploadThread:
    def __init__(
        self,
        decode: Callable[[int], tuple[np.ndarray, np.ndarray]],
        count: int,
        device: torch.device,
        depth: int = 4,
    ):
        self._decode = decode
        self._count = count
        self._device = device
        self._queue: queue.Queue = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self._finished = False
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
        self._thread.start()

    def _put(self, item: object) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def _run(self) -> None:
        try:
            torch.cuda.set_device(self._device)
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for index in range(self._count):
                    data, label = self._decode(index)
                    dev_data = torch.from_numpy(data).pin_memory().to(self._device, non_blocking=True)
                    dev_label = torch.from_numpy(label).pin_memory().to(self._device, non_blocking=True)
                    dev_data = (dev_data - dev_data.mean()) / dev_data.std().clamp_min(1e-6)
                    ready = torch.cuda.Event()
                    ready.record()
                    if not self._put(Uploaded(dev_data, dev_label, ready)):
                        return
            self._put(_END)
        except BaseException as error:
            self._put(_Failure(error))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while not self._finished:
            item = self._queue.get()
            if item is _END:
                self._finished = True
                return
            if isinstance(item, _Failure):
                self._finished = True
                raise item.error
            stream = torch.cuda.current_stream(self._device)
            stream.wait_event(item.ready)
            item.data.record_stream(stream)
            item.label.record_stream(stream)
            yield item.data, item.label

    def close(self) -> None:
        self._finished = True
        self._stop.set()
        self._thread.join()
        while not self._queue.empty():
            self._queue.get_nowait()


def decode(index: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(index)
    return rng.normal(size=(64, 512)).astype(np.float32), rng.integers(0, 10, size=64)


def main() -> None:
    device = torch.device("cuda", 0)
    head = torch.nn.Linear(512, 10).to(device)
    loader = UploadThread(decode, 100, device)
    correct = torch.zeros((), device=device, dtype=torch.int64)
    try:
        with torch.inference_mode():
            for data, label in loader:
                correct += (head(data).argmax(dim=1) == label).sum()
    finally:
        loader.close()
    print(correct.item())


if __name__ == "__main__":
    main()
