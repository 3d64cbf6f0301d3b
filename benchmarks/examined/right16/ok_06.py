"""Captured inference callable that can be invoked from any stream or thread."""
from __future__ import annotations

import threading

import torch


class GraphedModule:
    def __init__(self, module: torch.nn.Module, example: torch.Tensor, warmup: int = 3):
        self.module = module.eval()
        self.device = example.device
        self.stream = torch.cuda.Stream(device=self.device)
        self._lock = threading.Lock()
        self._static_in = example.clone()
        self._static_in.record_stream(self.stream)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.no_grad(), torch.cuda.stream(self.stream):
            for _ in range(warmup):
                self.module(self._static_in)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph, stream=self.stream):
            self._static_out = self.module(self._static_in)

    @torch.no_grad()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape != self._static_in.shape or x.dtype != self._static_in.dtype:
            raise ValueError(f"expected {tuple(self._static_in.shape)}, got {tuple(x.shape)}")
        if x.device != self.device:
            raise ValueError("input is on another device")
        caller = torch.cuda.current_stream(self.device)
        with self._lock:
            self.stream.wait_stream(caller)
            with torch.cuda.stream(self.stream):
                self._static_in.copy_(x)
                self.graph.replay()
                result = self._static_out.clone()
            done = self.stream.record_event()
        x.record_stream(self.stream)
        caller.wait_event(done)
        result.record_stream(caller)
        return result


def worker(name: str, runner: GraphedModule, out: dict[str, float]) -> None:
    torch.cuda.set_device(runner.device)
    mine = torch.cuda.Stream(device=runner.device)
    total = 0.0
    with torch.cuda.stream(mine):
        for step in range(20):
            x = torch.full((16, 128), 0.01 * step, device=runner.device)
            total += runner(x).sum().item()
    out[name] = total


def main() -> None:
    device = torch.device("cuda", 0)
    net = torch.nn.Sequential(
        torch.nn.Linear(128, 256), torch.nn.SiLU(), torch.nn.Linear(256, 32), torch.nn.Tanh()
    ).to(device)
    runner = GraphedModule(net, torch.zeros(16, 128, device=device))
    first = runner(torch.ones(16, 128, device=device))
    second = runner(torch.zeros(16, 128, device=device))
    print((first - second).abs().max().item())
    out: dict[str, float] = {}
    threads = [threading.Thread(target=worker, args=(f"w{i}", runner, out)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(out)


if __name__ == "__main__":
    main()
