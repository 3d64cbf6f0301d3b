"""CUDA graphs for several batch sizes in one memory pool, replayed in any order."""
from typing import Callable, Dict, List, Tuple

import torch


class CudaGraphRunner:
    """The graphs never run at the same time and none reads what another one left behind."""

    def __init__(self, forward: Callable[..., torch.Tensor], batch_sizes: List[int], hidden: int, device: torch.device):
        self.forward = forward
        self.batch_sizes = sorted(batch_sizes, reverse=True)
        self.device = device
        largest = self.batch_sizes[0]
        self.static_hidden = torch.zeros(largest, hidden, dtype=torch.bfloat16, device=device)
        self.static_positions = torch.zeros(largest, dtype=torch.int64, device=device)
        self.graphs: Dict[int, Tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        self.pool = None
        self.stream = torch.cuda.Stream(device)

    def capture(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            for bs in self.batch_sizes:
                args = (self.static_hidden[:bs], self.static_positions[:bs])
                for _ in range(2):
                    self.forward(*args)
                self.stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                graph.capture_begin(**({"pool": self.pool} if self.pool is not None else {}))
                out = self.forward(*args)
                graph.capture_end()
                self.pool = self.pool or graph.pool()
                self.graphs[bs] = (graph, out)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def _padded(self, n: int) -> int:
        return min(bs for bs in self.batch_sizes if bs >= n)

    @torch.inference_mode()
    def replay(self, hidden: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        n = hidden.shape[0]
        graph, out = self.graphs[self._padded(n)]
        self.static_hidden[:n].copy_(hidden)
        self.static_positions[:n].copy_(positions)
        graph.replay()
        # ``out`` is written again by the next replay of this size
        return out[:n].clone()


def serve(runner: CudaGraphRunner, batches) -> List[torch.Tensor]:
    runner.capture()
    results = []
    for hidden, positions in batches:
        results.append(runner.replay(hidden, positions))
    return [r.float().cpu() for r in results]
