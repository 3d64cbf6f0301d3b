"""Mixture of two branches captured into one CUDA graph with internal parallelism."""
from __future__ import annotations

import torch


class BranchedGraph:
    def __init__(self, local: torch.nn.Module, wide: torch.nn.Module, shape: tuple[int, ...], device: torch.device):
        self.local = local.to(device).eval()
        self.wide = wide.to(device).eval()
        self.device = device
        self._x = torch.zeros(shape, device=device)
        self._side = torch.cuda.Stream(device=device)
        self._last = torch.cuda.Event()
        self._capture()

    def _run(self, rounds: int) -> torch.Tensor:
        main = torch.cuda.current_stream(self.device)
        x = self._x
        for _ in range(rounds):
            self._side.wait_stream(main)
            with torch.cuda.stream(self._side):
                b = self.wide(x)
            a = self.local(x)
            main.wait_stream(self._side)
            x = torch.tanh(a + b)
        return x

    @torch.no_grad()
    def _capture(self) -> None:
        warm = torch.cuda.Stream(device=self.device)
        warm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm):
            for _ in range(3):
                self._run(4)
        torch.cuda.current_stream(self.device).wait_stream(warm)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device), torch.cuda.graph(self._graph):
            self._out = self._run(4)
        self._last.record(torch.cuda.current_stream(self.device))

    @torch.no_grad()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape != self._x.shape:
            raise ValueError(f"expected shape {tuple(self._x.shape)}")
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(self._last)
        try:
            self._x.record_stream(stream)
            self._x.copy_(x)
            self._graph.replay()
            return self._out.clone()
        finally:
            self._last.record(stream)


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dim = 256
    local = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.GELU(), torch.nn.Linear(dim, dim))
    wide = torch.nn.Sequential(torch.nn.Linear(dim, 4 * dim), torch.nn.GELU(), torch.nn.Linear(4 * dim, dim))
    model = BranchedGraph(local, wide, (64, dim), device)
    inputs = [torch.randn(64, dim, device=device) for _ in range(4)]
    outs = [model(x) for x in inputs]
    other = torch.cuda.Stream(device=device)
    other.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(other):
        again = [model(x) for x in inputs]
        again_host = [y.cpu() for y in again]
    print([float((a.cpu() - b).abs().max()) for a, b in zip(outs, again_host)])


if __name__ == "__main__":
    main()
