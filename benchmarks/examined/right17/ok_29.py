"""Thread pool in which every worker owns a stream."""
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, List, NamedTuple

import torch


class Done(NamedTuple):
    value: torch.Tensor
    event: torch.cuda.Event


class StreamPool:
    def __init__(self, device: torch.device, workers: int = 4):
        self.device = device
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(workers)

    def _stream(self) -> torch.cuda.Stream:
        stream = getattr(self._local, "stream", None)
        if stream is None:
            stream = self._local.stream = torch.cuda.Stream(device=self.device)
        return stream

    def _run(self, fn: Callable[..., torch.Tensor], inputs: List[torch.Tensor], begin: torch.cuda.Event) -> Done:
        stream = self._stream()
        stream.wait_event(begin)
        for t in inputs:
            t.record_stream(stream)
        end = torch.cuda.Event()
        with torch.cuda.stream(stream), torch.no_grad():
            value = fn(*inputs)
            end.record(stream)
        return Done(value, end)

    def submit(self, fn: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> "Future[Done]":
        begin = torch.cuda.Event()
        begin.record(torch.cuda.current_stream(self.device))
        return self._pool.submit(self._run, fn, list(inputs), begin)

    def result(self, future: "Future[Done]") -> torch.Tensor:
        value, end = future.result()
        current = torch.cuda.current_stream(self.device)
        current.wait_event(end)
        value.record_stream(current)
        return value

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        torch.cuda.synchronize(self.device)


def _spectrum(frame: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    chunks = frame.unfold(0, window.shape[0], window.shape[0] // 2)
    return torch.fft.rfft(chunks * window, dim=-1).abs().mean(dim=0)


def spectra(signals: List[torch.Tensor], width: int, device: torch.device) -> torch.Tensor:
    pool = StreamPool(device)
    try:
        window = torch.hann_window(width, device=device)
        futures = []
        for signal in signals:
            x = signal.to(device)
            x = (x - x.mean()) / x.std().clamp_min(1e-6)
            futures.append(pool.submit(_spectrum, x, window))
        rows = [pool.result(f) for f in futures]
        return torch.stack(rows).cpu() if rows else torch.empty(0, width // 2 + 1)
    finally:
        pool.close()
