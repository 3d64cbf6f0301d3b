"""Forward-only pipeline parallelism with non-blocking sends."""
from collections import deque
from typing import Optional

import torch
import torch.distributed as dist
from torch import nn


class StageLink:
    def __init__(self, shape: tuple, max_outstanding: int = 2):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.shape = shape
        self.max_outstanding = max_outstanding
        self._outbox: deque[tuple[dist.Work, torch.Tensor]] = deque()
        self._incoming: Optional[tuple[dist.Work, torch.Tensor]] = None

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def last(self) -> bool:
        return self.rank == self.world - 1

    def post_recv(self) -> None:
        if not self.first:
            buf = torch.empty(self.shape, device="cuda")
            self._incoming = (dist.irecv(buf, src=self.rank - 1), buf)

    def recv(self) -> torch.Tensor:
        work, buf = self._incoming
        work.wait()
        self._incoming = None
        return buf

    def send(self, t: torch.Tensor) -> None:
        if self.last:
            return
        t = t.contiguous()
        self._outbox.append((dist.isend(t, dst=self.rank + 1), t))
        while len(self._outbox) > self.max_outstanding:
            self._retire()

    def _retire(self) -> None:
        work, tensor = self._outbox.popleft()
        work.wait()
        del tensor

    def drain(self) -> None:
        while self._outbox:
            self._retire()


@torch.no_grad()
def run_stage(layers: nn.Module, link: StageLink, micro: list[torch.Tensor]) -> Optional[float]:
    outputs = []
    link.post_recv()
    for i, mb in enumerate(micro):
        x = mb if link.first else link.recv()
        if i + 1 < len(micro):
            link.post_recv()
        y = layers(x)
        link.send(y)
        if link.last:
            outputs.append(y.mean())
    link.drain()
    return torch.stack(outputs).mean().item() if outputs else None


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    shape = (8, 256)
    link = StageLink(shape)
    stage = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    for _ in range(5):
        micro = list(torch.randn(16, *shape, device="cuda").unbind(0))
        result = run_stage(stage, link, micro)
        if result is not None:
            print(result)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
