"""Futures for device-to-host results, completed by a watcher thread."""
import queue
import threading
from concurrent.futures import Future
from typing import List, Optional

import numpy as np
import torch


class HostResults:
    def __init__(self, device: torch.device):
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self._jobs: "queue.Queue" = queue.Queue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="host-results", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            event, host, future = job
            try:
                event.synchronize()
                value = host.numpy().copy()
            except Exception as exc:
                future.set_exception(exc)
            else:
                future.set_result(value)

    def fetch(self, tensor: torch.Tensor) -> "Future[np.ndarray]":
        """Copies the present value of ``tensor`` to the host in the background."""
        future: "Future[np.ndarray]" = Future()
        future.set_running_or_notify_cancel()
        current = torch.cuda.current_stream(self.device)
        snapshot = tensor.detach().clone()
        event = torch.cuda.Event(blocking=True)
        with self._lock:
            if self._closed:
                raise RuntimeError("closed")
            self.stream.wait_stream(current)
            with torch.cuda.stream(self.stream):
                host = torch.empty(snapshot.shape, dtype=snapshot.dtype, pin_memory=True)
                host.copy_(snapshot, non_blocking=True)
                event.record(self.stream)
            snapshot.record_stream(self.stream)
            self._jobs.put((event, host, future))
        return future

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()


class Sampler:
    def __init__(self, head: torch.nn.Module, results: HostResults, vocab: int, batch: int):
        self.head = head
        self.results = results
        self.logits = torch.empty(batch, vocab, device=results.device)

    @torch.no_grad()
    def step(self, hidden: torch.Tensor, temperature: float) -> "Future[np.ndarray]":
        n = hidden.shape[0]
        self.logits[:n].copy_(self.head(hidden))
        pending = self.results.fetch(self.logits[:n])
        self.logits[:n].div_(temperature)
        return pending


def collect(sampler: Sampler, hiddens: List[torch.Tensor], temperature: float = 0.7) -> Optional[np.ndarray]:
    futures = [sampler.step(h, temperature) for h in hiddens]
    rows = [f.result() for f in futures]
    return np.concatenate(rows) if rows else None
