from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from mpi4py import MPI


@dataclass
class Round:
    host: torch.Tensor
    landed: torch.cuda.Event
    request: Optional[MPI.Request] = None


class DelayedAverager:
    """Averages flat gradients over MPI, one step behind the computation."""

    def __init__(self, comm: MPI.Comm, numel: int) -> None:
        self.comm = comm
        self.stream = torch.cuda.Stream()
        self.rounds = [
            Round(torch.zeros(numel, pin_memory=True), torch.cuda.Event()) for _ in range(2)
        ]
        self.step = 0

    def _download(self, grad: torch.Tensor, r: Round) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            r.host.copy_(grad, non_blocking=True)
            grad.record_stream(self.stream)
            r.landed.record(self.stream)

    def _start(self, r: Round) -> None:
        r.landed.synchronize()
        r.request = self.comm.Iallreduce(MPI.IN_PLACE, r.host.numpy(), op=MPI.SUM)

    def _finish(self, r: Round) -> Optional[torch.Tensor]:
        if r.request is None:
            return None
        r.request.Wait()
        r.request = None
        with torch.cuda.stream(self.stream):
            averaged = r.host.to("cuda", non_blocking=True).div_(self.comm.Get_size())
        torch.cuda.current_stream().wait_stream(self.stream)
        averaged.record_stream(torch.cuda.current_stream())
        return averaged

    def exchange(self, grad: torch.Tensor) -> Optional[torch.Tensor]:
        now, before = self.rounds[self.step % 2], self.rounds[(self.step + 1) % 2]
        self.step += 1
        self._download(grad, now)
        stale = self._finish(before)
        self._start(now)
        return stale

    def close(self) -> Optional[torch.Tensor]:
        return self._finish(self.rounds[(self.step + 1) % 2])


def main() -> None:
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.Get_rank() % torch.cuda.device_count())
    torch.manual_seed(comm.Get_rank())
    weight = torch.zeros(512, device="cuda")
    target = torch.linspace(-1, 1, 512, device="cuda")
    averager = DelayedAverager(comm, 512)
    for _ in range(300):
        x = torch.randn(256, 512, device="cuda")
        grad = x.t() @ (x @ (weight - target)) / 256
        stale = averager.exchange(grad)
        if stale is not None:
            weight.sub_(stale, alpha=0.05)
    last = averager.close()
    if last is not None:
        weight.sub_(last, alpha=0.05)
    if comm.Get_rank() == 0:
        print(np.round((weight - target).abs().max().item(), 4))


if __name__ == "__main__":
    main()
