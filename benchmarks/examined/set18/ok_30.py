import contextlib
import time

import torch
from torch import nn


class IterationProfiler:
    """Device time of iteration i-1, reported in iteration i without draining the queue."""

    def __init__(self, log_every: int = 10, trace_iters: tuple[int, int] | None = None):
        self.log_every = log_every
        self.trace_iters = trace_iters
        self.start = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.host_start = 0.0
        self.it = 0
        self.profiler = None
        self.records: list[tuple[int, float, float]] = []

    def begin(self):
        if self.trace_iters is not None and self.it == self.trace_iters[0]:
            self.profiler = torch.profiler.profile(
                activities=[
                    torch.profiler.ProfilerActivity.CPU,
                    torch.profiler.ProfilerActivity.CUDA,
                ]
            )
            self.profiler.start()
        self.host_start = time.perf_counter()
        self.start[self.it % 2].record()

    def finish(self):
        cur, prev = self.it % 2, (self.it + 1) % 2
        self.end[cur].record()
        host_ms = 1e3 * (time.perf_counter() - self.host_start)
        if self.it > 0:
            self.end[prev].synchronize()
            device_ms = self.start[prev].elapsed_time(self.end[prev])
            self.records.append((self.it - 1, host_ms, device_ms))
            if self.it % self.log_every == 0:
                print(f"iter {self.it - 1}: host {host_ms:.2f} ms, device {device_ms:.2f} ms")
        if self.profiler is not None and self.it == self.trace_iters[1]:
            torch.cuda.synchronize()
            self.profiler.stop()
            self.profiler = None
        self.it += 1

    @contextlib.contextmanager
    def iteration(self):
        self.begin()
        yield
        self.finish()


class Executor:
    """Decodes one iteration ahead of the host."""

    def __init__(self, model: nn.Module, batch: int, device: torch.device):
        self.model = model
        self.tokens = torch.zeros(batch, dtype=torch.int64, device=device)
        self.host_tokens = torch.zeros(2, batch, dtype=torch.int64, pin_memory=True)
        self.copied = [torch.cuda.Event() for _ in range(2)]
        self.copy_stream = torch.cuda.Stream(device)
        self.profiler = IterationProfiler(trace_iters=(5, 7))

    @torch.no_grad()
    def forward(self, it: int):
        logits = self.model(self.tokens)
        sampled = logits.argmax(dim=-1)
        self.tokens = sampled
        self.copy_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.copy_stream):
            self.host_tokens[it % 2].copy_(sampled, non_blocking=True)
            sampled.record_stream(self.copy_stream)
            self.copied[it % 2].record(self.copy_stream)

    def harvest(self, it: int) -> list[int]:
        self.copied[it % 2].synchronize()
        return self.host_tokens[it % 2].tolist()

    def run(self, iterations: int) -> list[list[int]]:
        outputs = []
        for it in range(iterations):
            with self.profiler.iteration():
                self.forward(it)
                if it > 0:
                    outputs.append(self.harvest(it - 1))
        outputs.append(self.harvest(iterations - 1))
        return outputs


def main():
    device = torch.device("cuda")
    vocab, dim = 32000, 1024
    model = nn.Sequential(
        nn.Embedding(vocab, dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, vocab)
    ).to(device)
    executor = Executor(model, batch=64, device=device)
    outputs = executor.run(64)
    slowest = max(executor.profiler.records, key=lambda r: r[2])
    print(len(outputs), "iterations, slowest", slowest)


if __name__ == "__main__":
    main()
