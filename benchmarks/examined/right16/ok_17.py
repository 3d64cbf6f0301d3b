"""Invoke Python callbacks when device results have reached the host."""
from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

log = logging.getLogger(__name__)


class _Job(NamedTuple):
    event: torch.cuda.Event
    host: torch.Tensor
    callback: Callable[[np.ndarray], None]


class ResultDispatcher:
    def __init__(self, device: torch.device):
        self.device = device
        self._download = torch.cuda.Stream(device=device)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="results", daemon=True)
        self._thread.start()

    def send(self, result: torch.Tensor, callback: Callable[[np.ndarray], None]) -> None:
        source = result.detach()
        if not source.is_contiguous():
            source = source.contiguous()
        host = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
        producer = torch.cuda.current_stream(self.device)
        self._download.wait_stream(producer)
        with torch.cuda.stream(self._download):
            host.copy_(source, non_blocking=True)
        source.record_stream(self._download)
        event = self._download.record_event()
        producer.wait_event(event)
        self._jobs.put(_Job(event, host, callback))

    def _serve(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            job.event.synchronize()
            try:
                job.callback(job.host.numpy())
            except Exception:
                log.exception("result callback failed")

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def __enter__(self) -> "ResultDispatcher":
        return self

    def __exit__(self, *exc) -> None:
        self.close()


class Histogram:
    def __init__(self, bins: int):
        self.counts = np.zeros(bins, dtype=np.int64)
        self.lock = threading.Lock()

    def add(self, values: np.ndarray) -> None:
        with self.lock:
            self.counts += np.bincount(values, minlength=self.counts.size)


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    device = torch.device("cuda", 0)
    classifier = torch.nn.Linear(64, 10).to(device)
    histogram = Histogram(10)
    scratch = torch.empty(4096, dtype=torch.int64, device=device)
    with ResultDispatcher(device) as dispatcher, torch.no_grad():
        for _ in range(50):
            x = torch.randn(4096, 64, device=device)
            torch.argmax(classifier(x), dim=1, out=scratch)
            dispatcher.send(scratch, histogram.add)
            dispatcher.send(scratch[::2], histogram.add)
    print(histogram.counts.tolist())


if __name__ == "__main__":
    main()
