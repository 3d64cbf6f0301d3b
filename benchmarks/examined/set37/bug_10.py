"""A torch model whose gated activation is a Numba kernel, served on a private stream."""
import math
import threading
from typing import List

import numpy as np
import torch
from numba import cuda
from torch import nn


@cuda.jit
def gated_gelu(packed, out, rows, width):
    i = cuda.grid(1)
    if i < rows * width:
        r = i // width
        c = i - r * width
        gate = packed[r, c]
        value = packed[r, width + c]
        cdf = 0.5 * (1.0 + math.erf(gate * 0.7071067811865476))
        out[r, c] = gate * cdf * value


class NumbaGatedGelu(nn.Module):
    THREADS = 256

    def forward(self, packed: torch.Tensor) -> torch.Tensor:
        packed = packed.contiguous()
        rows, twice = packed.shape
        width = twice // 2
        out = torch.empty((rows, width), dtype=packed.dtype, device=packed.device)
        blocks = (rows * width + self.THREADS - 1) // self.THREADS
        gated_gelu[blocks, self.THREADS](
            cuda.as_cuda_array(packed), cuda.as_cuda_array(out), np.int32(rows), np.int32(width)
        )
        return out


class FeedForward(nn.Module):
    def __init__(self, hidden: int, inner: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 2 * inner)
        self.act = NumbaGatedGelu()
        self.down = nn.Linear(inner, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = self.up(self.norm(x))
        return x + self.down(self.act(packed))


class StreamedModel:
    def __init__(self, model: nn.Module, device: torch.device):
        self.model = model.to(device).eval()
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self._lock = threading.Lock()
        torch.cuda.synchronize(device)

    @torch.inference_mode()
    def infer(self, batch: np.ndarray) -> np.ndarray:
        with self._lock, torch.cuda.stream(self.stream):
            x = torch.from_numpy(batch).to(self.device)
            y = self.model(x)
            return y.cpu().numpy()


def client(server: StreamedModel, rounds: int, sink: List[float]) -> None:
    rng = np.random.default_rng(rounds)
    for _ in range(rounds):
        sink.append(float(server.infer(rng.standard_normal((2048, 1024), dtype=np.float32)).mean()))


def main() -> None:
    device = torch.device("cuda", 0)
    model = nn.Sequential(*[FeedForward(1024, 4096) for _ in range(12)])
    server = StreamedModel(model, device)
    sink: List[float] = []
    clients = [threading.Thread(target=client, args=(server, 8, sink)) for _ in range(4)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    print(sum(sink) / len(sink))


if __name__ == "__main__":
    main()
