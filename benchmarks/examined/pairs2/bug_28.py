"""Shared-weight gradient reduction over a combined group with futures."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class SharedGradReducer:
    def __init__(self, params, group):
        self.params = [p for p in params if p.requires_grad]
        self.group = group
        self.size = dist.get_world_size(group)
        self.futures = []

    def launch(self):
        grads = [p.grad for p in self.params]
        coalesced = _flatten_dense_tensors(grads)
        coalesced.div_(self.size)
        future = dist.all_reduce(coalesced, group=self.group, async_op=True).get_future()

        def scatter(fut):
            flat = fut.value()[0]
            for grad, synced in zip(grads, _unflatten_dense_tensors(flat, grads)):
                grad.copy_(synced)
            return grads

        self.futures.append(future.then(scatter))

    def finish(self):
        for future in self.futures:
            if not future.done():
                future.wait()
        self.futures.clear()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + torch.relu(self.fc(self.norm(x)))


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*[Block(2048) for _ in range(12)]).cuda()
    reducer = SharedGradReducer(model.parameters(), dist.group.WORLD)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(100):
        x = torch.randn(32, 2048, device="cuda")
        opt.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        reducer.launch()
        reducer.finish()
        opt.step()


main()
