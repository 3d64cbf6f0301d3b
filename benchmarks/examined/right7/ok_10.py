"""Bucketed gradient averaging with asynchronous collectives."""
import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params):
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device="cuda")
        self.pending = len(params)
        self.work = None

    def views(self):
        off = 0
        for p in self.params:
            yield p, self.flat[off:off + p.numel()].view_as(p)
            off += p.numel()


class Reducer:
    def __init__(self, model: nn.Module, cap: int = 1 << 20):
        self.buckets, group, size = [], [], 0
        for p in reversed(list(model.parameters())):
            group.append(p)
            size += p.numel()
            if size >= cap:
                self.buckets.append(Bucket(group))
                group, size = [], 0
        if group:
            self.buckets.append(Bucket(group))
        self.owner = {p: b for b in self.buckets for p in b.params}
        for p in self.owner:
            p.register_post_accumulate_grad_hook(self._hook)

    def _hook(self, p):
        b = self.owner[p]
        b.pending -= 1
        if b.pending == 0:
            for q, view in b.views():
                view.copy_(q.grad)
            b.flat.div_(dist.get_world_size())
            b.work = dist.all_reduce(b.flat, async_op=True)

    def finalize(self):
        for b in self.buckets:
            b.work.wait()
            for p, view in b.views():
                p.grad.copy_(view)
            b.pending, b.work = len(b.params), None


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024)).cuda()
    reducer = Reducer(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        model(torch.randn(32, 1024, device="cuda")).mean().backward()
        reducer.finalize()
        opt.step()
        opt.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
