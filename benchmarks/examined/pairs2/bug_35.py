"""ZeRO-1 style update with deferred weight gathering."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class FlatParameter:
    def __init__(self, linear, device):
        world, rank = dist.get_world_size(), dist.get_rank()
        n = linear.weight.numel()
        assert n % world == 0
        self.linear = linear
        self.data = linear.weight.detach().clone().view(-1)
        linear.weight.data = self.data.view_as(linear.weight)
        self.local = self.data.chunk(world)[rank]
        self.local_grad = torch.empty_like(self.local)
        self.momentum = torch.zeros_like(self.local)


class Zero1:
    def __init__(self, linears, device, lr=0.01, beta=0.9):
        self.flats = [FlatParameter(l, device) for l in linears]
        self.lr, self.beta = lr, beta
        self.comm_stream = torch.cuda.Stream(device)
        self.works = []

    @torch.no_grad()
    def step(self):
        for flat in self.flats:
            dist.reduce_scatter_tensor(flat.local_grad, flat.linear.weight.grad.view(-1))
            flat.momentum.mul_(self.beta).add_(flat.local_grad)
            flat.local.sub_(flat.momentum, alpha=self.lr)
            self.works.append(dist.all_gather_into_tensor(flat.data, flat.local, async_op=True))

    def wait_params(self):
        with torch.cuda.stream(self.comm_stream):
            for work in self.works:
                work.wait()
        self.works.clear()


class Mlp(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(depth))

    def forward(self, x):
        for linear in self.linears:
            x = torch.tanh(linear(x))
        return x


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = Mlp(4096, 8).to(device)
    zero = Zero1(model.linears, device)
    for _ in range(100):
        x = torch.randn(32, 4096, device=device)
        zero.wait_params()
        model.zero_grad(set_to_none=False)
        model(x).pow(2).mean().backward()
        zero.step()
    torch.cuda.synchronize()


main()
