from dataclasses import dataclass
from typing import Any, Optional

import torch
from mpi4py import MPI


@dataclass
class Bucket:
    params: list
    flat: torch.Tensor
    send: torch.Tensor
    recv: torch.Tensor
    staged: torch.cuda.Event
    returned: Optional[torch.cuda.Event] = None
    request: Any = None


class HostReducer:
    """Averages gradients over ranks through pinned host memory."""

    def __init__(self, params, comm, bucket_numel=1 << 20):
        self.comm = comm
        self.stream = torch.cuda.Stream()
        self.buckets = []
        group, count = [], 0
        for p in params:
            group.append(p)
            count += p.numel()
            if count >= bucket_numel:
                self._close(group, count)
                group, count = [], 0
        if group:
            self._close(group, count)
        torch.cuda.synchronize()

    def _close(self, group, count):
        self.buckets.append(Bucket(
            group, torch.zeros(count, device="cuda"), torch.zeros(count).pin_memory(),
            torch.zeros(count).pin_memory(), torch.cuda.Event()))

    def reduce(self):
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            for b in self.buckets:
                torch.cat([p.grad.reshape(-1) for p in b.params], out=b.flat)
                b.send.copy_(b.flat, non_blocking=True)
                b.staged.record()
        for b in self.buckets:
            b.staged.synchronize()
            if b.returned is not None:
                b.returned.synchronize()
            b.request = self.comm.Iallreduce(b.send.numpy(), b.recv.numpy(), op=MPI.SUM)
        with torch.cuda.stream(self.stream):
            for b in self.buckets:
                b.request.Wait()
                b.flat.copy_(b.recv, non_blocking=True)
                b.returned = self.stream.record_event()
                offset = 0
                for p in b.params:
                    n = p.numel()
                    p.grad.copy_(b.flat[offset:offset + n].view_as(p))
                    p.grad.div_(self.comm.Get_size())
                    offset += n
        main.wait_stream(self.stream)


def main():
    comm = MPI.COMM_WORLD
    torch.cuda.set_device(comm.Get_rank() % torch.cuda.device_count())
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(),
                                torch.nn.Linear(2048, 512)).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    reducer = HostReducer(list(model.parameters()), comm)
    for _ in range(10):
        x = torch.randn(64, 512, device="cuda")
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad(set_to_none=False)
        loss.backward()
        reducer.reduce()
        opt.step()
    print(comm.Get_rank(), loss.item())


if __name__ == "__main__":
    main()
