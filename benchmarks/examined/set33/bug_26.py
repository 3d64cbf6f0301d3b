from typing import List

import torch


class RingReduceScatterGemm:
    """Splits x @ w into row chunks and ships each finished chunk to its owner."""

    def __init__(self, rows: int, in_dim: int, out_dim: int, owners: List[torch.device]):
        self.device = owners[0]
        self.owners = owners
        self.chunks = len(owners)
        if rows % self.chunks:
            raise ValueError("rows must be divisible by the number of owners")
        self.rows = rows // self.chunks
        self.compute_stream = torch.cuda.Stream(self.device)
        self.send_stream = torch.cuda.Stream(self.device, priority=-1)
        self.partials = [
            torch.empty(self.rows, out_dim, device=self.device, dtype=torch.float16)
            for _ in range(self.chunks)
        ]
        self.inbox = [
            torch.empty(self.rows, out_dim, device=dev, dtype=torch.float16) for dev in owners
        ]
        self.arrived = [torch.cuda.Event() for _ in owners]

    def _ship(self, chunk: int) -> None:
        with torch.cuda.stream(self.send_stream):
            self.inbox[chunk].copy_(self.partials[chunk], non_blocking=True)
            self.arrived[chunk].record(self.send_stream)

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> List[torch.Tensor]:
        main = torch.cuda.current_stream(self.device)
        self.compute_stream.wait_stream(main)
        self.send_stream.wait_stream(main)
        last = self.chunks - 1
        for chunk in range(self.chunks):
            rows = x[chunk * self.rows : (chunk + 1) * self.rows]
            if chunk == last:
                torch.mm(rows, w, out=self.partials[chunk])
            else:
                with torch.cuda.stream(self.compute_stream):
                    torch.mm(rows, w, out=self.partials[chunk])
            self.send_stream.wait_stream(self.compute_stream)
            self._ship(chunk)
        main.wait_stream(self.compute_stream)
        main.wait_stream(self.send_stream)
        return self.inbox


class RowParallelLinear(torch.nn.Module):
    def __init__(self, in_dim, out_dim, rows, owners):
        super().__init__()
        self.weight = torch.nn.Parameter(
            torch.randn(in_dim, out_dim, device=owners[0], dtype=torch.float16) * 0.02,
            requires_grad=False,
        )
        self.ring = RingReduceScatterGemm(rows, in_dim, out_dim, owners)

    def forward(self, x):
        return self.ring.forward(x, self.weight)


def main():
    count = torch.cuda.device_count()
    owners = [torch.device("cuda", i % count) for i in range(4)]
    layer = RowParallelLinear(4096, 4096, 8192, owners)
    x = torch.randn(8192, 4096, device=owners[0], dtype=torch.float16)
    for _ in range(10):
        parts = layer(x)
    torch.cuda.synchronize(owners[0])
    print([float(p[0, 0]) for p in parts])


if __name__ == "__main__":
    main()
