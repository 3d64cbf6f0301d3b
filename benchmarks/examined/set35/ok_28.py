"""Two-branch encoder captured once; the branches fork and join inside the graph."""
from typing import Dict, Optional

import torch
import torch.nn as nn


class TwoBranch(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        self.left = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)])
        self.right = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth)])
        self.head = nn.Linear(2 * width, 16)
        self.side: Optional[torch.cuda.Stream] = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.side is None:
            return self.head(torch.cat([self.left(x), self.right(x)], dim=-1))
        main = torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            r = self.right(x)
        l = self.left(x)
        main.wait_stream(self.side)
        return self.head(torch.cat([l, r], dim=-1))


class GraphServer:
    """Requests may come from any stream; replays happen on the server's own."""

    def __init__(self, model: TwoBranch, batch: int, width: int):
        self.model = model.cuda().eval()
        self.model.side = torch.cuda.Stream()
        self.stream = torch.cuda.Stream()
        self.static_in = torch.zeros(batch, width, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream), torch.inference_mode():
            for _ in range(3):
                self.model(self.static_in)
        self.stream.synchronize()
        with torch.inference_mode(), torch.cuda.graph(self.graph, stream=self.stream):
            self.static_out = self.model(self.static_in)

    @torch.inference_mode()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            self.static_in.copy_(x)
            x.record_stream(self.stream)
            self.graph.replay()
            out = self.static_out.clone()
        caller.wait_stream(self.stream)
        out.record_stream(caller)
        return out


def main() -> None:
    batch, width = 1024, 1024
    server = GraphServer(TwoBranch(width, 6), batch, width)
    callers = [torch.cuda.Stream() for _ in range(2)]
    sums: Dict[int, torch.Tensor] = {}
    for i in range(10):
        stream = callers[i % 2]
        with torch.cuda.stream(stream):
            x = torch.randn(batch, width, device="cuda")
            sums[i] = server(x).softmax(dim=-1).sum(dim=0)
    torch.cuda.synchronize()
    print({i: s.argmax().item() for i, s in sums.items()})


if __name__ == "__main__":
    main()
