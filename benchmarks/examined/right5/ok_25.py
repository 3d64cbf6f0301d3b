from collections import deque

import numpy as np
import torch


class ResultFetcher:
    """Hands device results back to the host a fixed number of steps later."""

    def __init__(self, lag: int = 2):
        self.lag = lag
        self.stream = torch.cuda.Stream()
        self.inflight: deque = deque()
        self.spare: list = []

    def _host_like(self, t: torch.Tensor) -> torch.Tensor:
        for i, h in enumerate(self.spare):
            if h.shape == t.shape and h.dtype == t.dtype:
                return self.spare.pop(i)
        return torch.empty(t.shape, dtype=t.dtype, pin_memory=True)

    def submit(self, key, t: torch.Tensor):
        host = self._host_like(t)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(t, non_blocking=True)
            done = self.stream.record_event()
        self.inflight.append((key, t, host, done))
        if len(self.inflight) > self.lag:
            yield self._take()

    def drain(self):
        while self.inflight:
            yield self._take()

    def _take(self):
        key, device_ref, host, done = self.inflight.popleft()
        done.synchronize()
        del device_ref
        out = host.numpy().copy()
        self.spare.append(host)
        return key, out


@torch.inference_mode()
def evaluate(model, batches):
    fetcher, results = ResultFetcher(), {}
    for i, b in enumerate(batches):
        probs = model(b.cuda()).softmax(-1)
        for key, arr in fetcher.submit(i, probs):
            results[key] = arr.argmax(-1)
    for key, arr in fetcher.drain():
        results[key] = arr.argmax(-1)
    return np.concatenate([results[k] for k in sorted(results)])


if __name__ == "__main__":
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)).cuda().eval()
    data = [torch.rand(128, 1, 28, 28) for _ in range(30)]
    print(np.bincount(evaluate(net, data)))
