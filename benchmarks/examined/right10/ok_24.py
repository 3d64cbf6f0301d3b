"""Embedding extraction with device-to-host copies collected by a thread pool."""
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch


class HostFetch:
    def __init__(self, workers: int = 2):
        self.pool = ThreadPoolExecutor(workers)
        self.stream = torch.cuda.Stream()

    def __call__(self, t: torch.Tensor) -> "Future[np.ndarray]":
        src = t.detach()
        ready = torch.cuda.current_stream().record_event()
        return self.pool.submit(self._fetch, src, ready)

    def _fetch(self, src: torch.Tensor, ready: torch.cuda.Event) -> np.ndarray:
        host = torch.empty(src.shape, dtype=src.dtype, pin_memory=True)
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            host.copy_(src, non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        done.synchronize()
        return host.numpy().copy()

    def shutdown(self):
        self.pool.shutdown(wait=True)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(768, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 384))

    def forward(self, x):
        return torch.nn.functional.normalize(self.net(x), dim=-1)


def main():
    enc = Encoder().cuda().eval()
    fetch = HostFetch()
    futures = []
    with torch.inference_mode():
        for i in range(40):
            x = torch.randn(256, 768, device="cuda")
            futures.append(fetch(enc(x)))
    table = np.concatenate([f.result() for f in futures])
    fetch.shutdown()
    print(table.shape, float(np.abs(table).mean()))


if __name__ == "__main__":
    main()
