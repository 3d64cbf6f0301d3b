import torch
import torch.distributed as dist
from torch import nn


def exchange(send=None, dst=None, recv=None, src=None):
    ops = []
    if send is not None:
        ops.append(dist.P2POp(dist.isend, send, dst))
    if recv is not None:
        ops.append(dist.P2POp(dist.irecv, recv, src))
    return dist.batch_isend_irecv(ops) if ops else []


class Stage:
    def __init__(self, rank, world, dim, micro):
        self.rank, self.world = rank, world
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.Tanh()).cuda()
        self.inbox = [torch.empty(micro, dim, device="cuda") for _ in range(2)]
        self.first, self.last = rank == 0, rank == world - 1

    def _post_recv(self, i):
        if self.first:
            return []
        return exchange(recv=self.inbox[i % 2], src=self.rank - 1)

    @torch.no_grad()
    def run(self, batches, count):
        outputs, sends = [], []
        incoming = self._post_recv(0)
        for i in range(count):
            for req in incoming:
                req.wait()
            x = batches[i] if self.first else self.inbox[i % 2]
            if i + 1 < count:
                incoming = self._post_recv(i + 1)
            y = self.net(x)
            for req in sends:
                req.wait()
            if self.last:
                outputs.append(y)
            else:
                sends = exchange(send=y, dst=self.rank + 1)
                self.in_flight = y
        for req in sends:
            req.wait()
        return outputs


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    stage = Stage(rank, world, 1024, 16)
    count = 12
    batches = [torch.randn(16, 1024, device="cuda") for _ in range(count)] if rank == 0 else None
    outs = stage.run(batches, count)
    if outs:
        print(torch.stack(outs).mean().item())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
