"""Thread-pool inference service; each worker thread drives a stream of its own."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class Service:
    def __init__(self, model, device="cuda:0", workers=4):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.scale = torch.linspace(0.5, 1.5, 10, device=self.device)
        torch.cuda.current_stream(self.device).synchronize()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(workers, initializer=self._setup)

    def _setup(self):
        torch.cuda.set_device(self.device)
        self._local.stream = torch.cuda.Stream(self.device)
        self._local.begin = torch.cuda.Event(enable_timing=True)
        self._local.end = torch.cuda.Event(enable_timing=True)

    def _answer(self, x):
        local = self._local
        with torch.inference_mode(), torch.cuda.stream(local.stream):
            local.begin.record()
            logits = self.model(x.to(self.device, non_blocking=True))
            probs = (logits * self.scale).softmax(-1)
            local.end.record()
            host = probs.cpu()
        return host, local.begin.elapsed_time(local.end)

    def submit(self, x):
        return self._pool.submit(self._answer, x)

    def map(self, xs):
        return list(self._pool.map(self._answer, xs))

    def close(self):
        self._pool.shutdown(wait=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def main():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
    requests = [torch.randn(1 + i % 7, 64).pin_memory() for i in range(40)]
    with Service(model) as service:
        first = service.submit(requests[0])
        rest = service.map(requests[1:])
        answers = [first.result()] + rest
    rows = sum(a.shape[0] for a, _ in answers)
    slowest = max(ms for _, ms in answers)
    print(rows, round(slowest, 3))


if __name__ == "__main__":
    main()
