"""Encoder service: pool threads share one captured graph, each thread on a stream of its own."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class SharedGraph:
    """Static buffers and graph of one module, usable from any stream."""

    def __init__(self, module: nn.Module, example: torch.Tensor):
        self._lock = threading.Lock()
        self._released = torch.cuda.Event()
        self.static_in = example.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                module(self.static_in)
            stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.static_out = module(self.static_in)
        torch.cuda.synchronize()

    def __call__(self, x):
        stream = torch.cuda.current_stream()
        with self._lock:
            stream.wait_event(self._released)
            self.static_in.zero_()
            self.static_in[: x.shape[0]].copy_(x, non_blocking=True)
            self.graph.replay()
            out = self.static_out[: x.shape[0]].clone()
            self._released.record(stream)
        return out


class WorkerState(threading.local):
    def __init__(self):
        self.stream = torch.cuda.Stream()


class EncoderService:
    def __init__(self, dim=1024, max_rows=64, workers=4):
        module = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        ).cuda().eval()
        self.shared = SharedGraph(module, torch.zeros(max_rows, dim, device="cuda"))
        self.state = WorkerState()
        self.pool = ThreadPoolExecutor(workers)

    @torch.no_grad()
    def _encode(self, rows):
        stream = self.state.stream
        with torch.cuda.stream(stream):
            x = rows.to("cuda", non_blocking=True)
            y = self.shared(x)
            y = y / y.norm(dim=-1, keepdim=True).clamp_min(1e-6)
            host = torch.empty(y.shape, pin_memory=True)
            host.copy_(y, non_blocking=True)
        stream.synchronize()
        return host

    def submit(self, rows):
        return self.pool.submit(self._encode, rows)

    def close(self):
        self.pool.shutdown()


def main():
    service = EncoderService()
    jobs = []
    for i in range(200):
        rows = torch.randn(1 + i % 64, 1024).pin_memory()
        jobs.append(service.submit(rows))
    print(sum(float(j.result().square().sum()) for j in jobs))
    service.close()


if __name__ == "__main__":
    main()
