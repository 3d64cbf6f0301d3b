from typing import List

import torch


class Lanes:
    """A set of streams with an all-to-all barrier."""

    def __init__(self, n: int):
        self.streams = [torch.cuda.Stream() for _ in range(n)]

    def barrier(self, *others: torch.cuda.Stream) -> None:
        everyone = [*self.streams, *others]
        events = [s.record_event() for s in everyone]
        for s in everyone:
            for e in events:
                s.wait_event(e)

    def each(self):
        for i, s in enumerate(self.streams):
            with torch.cuda.stream(s):
                yield i


class BlockJacobi:
    """Each lane owns a block of rows and reads the whole previous iterate."""

    def __init__(self, a: torch.Tensor, b: torch.Tensor, lanes: int):
        self.lanes = Lanes(lanes)
        self.a_blocks: List[torch.Tensor] = list(a.chunk(lanes))
        self.b_blocks = list(b.chunk(lanes))
        self.inv_diag = list((1.0 / a.diagonal()).chunk(lanes))
        self.rows = a.shape[0] // lanes
        self.x = [torch.zeros_like(b), torch.zeros_like(b)]

    def solve(self, sweeps: int) -> torch.Tensor:
        self.lanes.barrier(torch.cuda.current_stream())
        for k in range(sweeps):
            old, new = self.x[k % 2], self.x[(k + 1) % 2]
            for i in self.lanes.each():
                part = slice(i * self.rows, (i + 1) * self.rows)
                residual = self.b_blocks[i] - self.a_blocks[i] @ old
                torch.addcmul(old[part], self.inv_diag[i], residual, value=0.8, out=new[part])
            self.lanes.barrier()
        self.lanes.barrier(torch.cuda.current_stream())
        return self.x[sweeps % 2]


@torch.no_grad()
def main():
    n = 4096
    a = torch.rand(n, n, device="cuda") / n + torch.eye(n, device="cuda") * 2
    b = torch.randn(n, device="cuda")
    solver = BlockJacobi(a, b, 4)
    for _ in range(3):
        x = solver.solve(20)
        print((a @ x - b).norm().item())


if __name__ == "__main__":
    main()
