"""Decode loop with a scheduler stream and a captured forward on its own stream."""
from dataclasses import dataclass, field
from typing import List

import torch


@dataclass
class PageTable:
    slots: int
    width: int
    device: torch.device
    data: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.data = torch.zeros(self.slots, self.width, dtype=torch.int64, device=self.device)


class DecodeGraphRunner:
    """Replays attention-like pooling over the pages listed in the live table."""

    def __init__(self, table: PageTable, pages: int, dim: int, batch: int):
        device = table.device
        self.table = table
        self.cache = torch.randn(pages, dim, device=device, dtype=torch.float16)
        self.proj = torch.randn(dim, dim, device=device, dtype=torch.float16) / dim**0.5
        self.req_idx = torch.zeros(batch, dtype=torch.int64, device=device)
        self.forward_stream = torch.cuda.Stream(device)
        self.read_done = torch.cuda.Event()
        self.output = None
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    def _forward(self) -> torch.Tensor:
        hidden = self.cache[self.req_idx] @ self.proj
        hidden = torch.nn.functional.silu(hidden @ self.proj)
        picked = self.table.data.index_select(0, self.req_idx)
        return (self.cache[picked].float().mean(dim=1) + hidden).half()

    def _capture(self) -> None:
        self.forward_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.forward_stream):
            for _ in range(2):
                self._forward()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph, stream=self.forward_stream):
            self.output = self._forward()

    def run(self, req_idx: torch.Tensor, table_ready: torch.cuda.Event) -> None:
        with torch.cuda.stream(self.forward_stream):
            self.forward_stream.wait_event(table_ready)
            self.req_idx.copy_(req_idx, non_blocking=True)
            self.read_done.record(self.forward_stream)
            self.graph.replay()


class Scheduler:
    def __init__(self, runner: DecodeGraphRunner, batch: int):
        self.runner = runner
        self.table = runner.table
        self.batch = batch
        self.schedule_stream = torch.cuda.Stream(self.table.device)
        self.table_ready = torch.cuda.Event()
        self.req_idx = torch.zeros(batch, dtype=torch.int64, device=self.table.device)
        self.pages = runner.cache.shape[0]
        self.cursor = 0
        self.steps: List[int] = []
        torch.cuda.synchronize()

    def _allocate(self, slot: int) -> None:
        fresh = torch.randint(
            0, self.pages, (self.table.width,), device=self.table.device, dtype=torch.int64
        )
        self.table.data[slot].copy_(fresh)

    def step(self) -> None:
        with torch.cuda.stream(self.schedule_stream):
            self.schedule_stream.wait_event(self.runner.read_done)
            for _ in range(4):
                self._allocate(self.cursor)
                self.cursor = (self.cursor + 1) % self.table.slots
            self.req_idx.add_(1).remainder_(self.table.slots)
            self.table_ready.record(self.schedule_stream)
        self.runner.run(self.req_idx, self.table_ready)
        self.steps.append(self.cursor)


def main(steps: int = 1000) -> None:
    device = torch.device("cuda", 0)
    table = PageTable(slots=256, width=2048, device=device)
    runner = DecodeGraphRunner(table, pages=1 << 14, dim=256, batch=64)
    scheduler = Scheduler(runner, batch=64)
    for _ in range(steps):
        scheduler.step()
    torch.cuda.synchronize()
    print(runner.output.float().norm().item())


if __name__ == "__main__":
    main()
