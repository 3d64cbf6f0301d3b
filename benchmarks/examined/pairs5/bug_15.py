"""Pipeline stage: activations sent forward with isend, one send buffer per stage."""
import os
import torch
import torch.distributed as dist
from torch import nn


class StageLink:
    def __init__(self, shape, device):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.send_buf = torch.empty(shape, device=device)
        self.recv_buf = torch.empty(shape, device=device)
        self.pending = None

    @property
    def first(self):
        return self.rank == 0

    @property
    def last(self):
        return self.rank == self.world - 1

    def receive(self):
        req = dist.irecv(self.recv_buf, src=self.rank - 1)
        req.wait()
        return self.recv_buf.clone()

    def send(self, activation):
        self.send_buf.copy_(activation)
        if self.pending is not None:
            self.pending.wait()
        self.pending = dist.isend(self.send_buf, dst=self.rank + 1)

    def close(self):
        if self.pending is not None:
            self.pending.wait()


class Stage(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.body = nn.Sequential(*[nn.Sequential(nn.Linear(dim, dim), nn.ReLU()) for _ in range(layers)])

    def forward(self, x):
        return self.body(x)


@torch.no_grad()
def run(microbatches=64, rows=2048, dim=2048):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    stage = Stage(dim, 4).to(device)
    link = StageLink((rows, dim), device)
    total = torch.zeros((), device=device)
    for _ in range(microbatches):
        x = torch.randn(rows, dim, device=device) if link.first else link.receive()
        y = stage(x)
        if link.last:
            total += y.sum()
        else:
            link.send(y)
    link.close()
    if link.last:
        print(total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    run()
