"""Gradient averaging in buckets; collectives are joined by the optimizer."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class BucketAverager:
    def __init__(self, module, bucket_params=4, group=None):
        self.group = group
        self.world = dist.get_world_size(group)
        params = [p for p in module.parameters() if p.requires_grad]
        self.buckets = [params[i : i + bucket_params] for i in range(0, len(params), bucket_params)]
        self.bucket_of = {p: n for n, bucket in enumerate(self.buckets) for p in bucket}
        self.ready = [0] * len(self.buckets)
        self.pending = []
        for p in params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def _on_grad(self, p):
        n = self.bucket_of[p]
        self.ready[n] += 1
        if self.ready[n] == len(self.buckets[n]):
            self.ready[n] = 0
            grads = [q.grad for q in self.buckets[n]]
            flat = _flatten_dense_tensors(grads)
            work = dist.all_reduce(flat, group=self.group, async_op=True)
            self.pending.append((work, flat, grads))

    def join(self, *_):
        for work, flat, grads in self.pending:
            work.wait()
            flat.div_(self.world)
            torch._foreach_copy_(grads, list(_unflatten_dense_tensors(flat, grads)))
        self.pending.clear()

    def attach(self, optimizer):
        optimizer.register_step_pre_hook(self.join)
        return optimizer


class Net(nn.Module):
    def __init__(self, dim=2048, depth=10):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


def main(steps=30):
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    net = Net().cuda()
    averager = BucketAverager(net)
    opt = averager.attach(torch.optim.AdamW(net.parameters(), lr=1e-4))
    torch.manual_seed(dist.get_rank())
    for _ in range(steps):
        loss = net(torch.randn(128, 2048, device="cuda")).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    if dist.get_rank() == 0:
        print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
