"""Bucketed weight broadcast from trainer to samplers, two buckets in flight."""
import os
import torch
import torch.distributed as dist
from torch import nn


class BucketBroadcast:
    def __init__(self, numel, depth=2):
        self.buckets = [torch.empty(numel, device="cuda") for _ in range(depth)]
        self.works = [None] * depth
        self.apply = [None] * depth

    def _finish(self, i):
        if self.works[i] is None:
            return
        self.works[i].wait()
        self.works[i] = None
        if self.apply[i] is not None:
            offset = 0
            for p in self.apply[i]:
                p.copy_(self.buckets[i][offset:offset + p.numel()].view_as(p))
                offset += p.numel()
            self.apply[i] = None

    @torch.no_grad()
    def sync(self, params, src=0):
        rank = dist.get_rank()
        for n, group in enumerate(self._groups(params)):
            i = n % len(self.buckets)
            self._finish(i)
            if rank == src:
                torch.cat([p.reshape(-1) for p in group], out=self.buckets[i][:sum(p.numel() for p in group)])
            else:
                self.apply[i] = group
            self.works[i] = dist.broadcast(self.buckets[i], src=src, async_op=True)
        for i in range(len(self.buckets)):
            self._finish(i)

    def _groups(self, params):
        group, used = [], 0
        limit = self.buckets[0].numel()
        for p in params:
            if used + p.numel() > limit:
                yield group
                group, used = [], 0
            group.append(p)
            used += p.numel()
        if group:
            yield group


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    net = nn.Sequential(*[nn.Linear(512, 512) for _ in range(16)]).cuda()
    sync = BucketBroadcast(1 << 20)
    for _ in range(5):
        if dist.get_rank() == 0:
            for p in net.parameters():
                p.data.mul_(1.01)
        sync.sync(list(net.parameters()))
    print(dist.get_rank(), sum(p.sum() for p in net.parameters()).item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
