"""Sharded parameter gather ahead of use, reduce-scatter behind backward (torchrun)."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedLinear:
    def __init__(self, fan_in, fan_out, device):
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        assert fan_out % self.world == 0
        self.shape = (fan_out, fan_in)
        rows = fan_out // self.world
        self.shard = torch.randn(rows, fan_in, device=device) * fan_in ** -0.5
        self.full = torch.empty(fan_out, fan_in, device=device)
        self.grad = torch.empty_like(self.shard)
        self.work = None


class Engine:
    def __init__(self, layers, device):
        self.layers = layers
        self.device = device
        self.comm = torch.cuda.Stream(device)
        self.ready = [torch.cuda.Event() for _ in layers]

    def prefetch(self, i):
        layer = self.layers[i]
        self.comm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.comm):
            work = dist.all_gather_into_tensor(layer.full, layer.shard, async_op=True)
            work.wait()
            self.ready[i].record(self.comm)

    def weight(self, i):
        torch.cuda.current_stream(self.device).wait_event(self.ready[i])
        return self.layers[i].full

    def forward(self, x):
        self.prefetch(0)
        acts = [x]
        for i in range(len(self.layers)):
            if i + 1 < len(self.layers):
                self.prefetch(i + 1)
            x = torch.tanh(F.linear(x, self.weight(i)))
            acts.append(x)
        return acts

    def backward(self, acts, target):
        g = 2.0 * (acts[-1] - target) / target.numel()
        for i in reversed(range(len(self.layers))):
            layer = self.layers[i]
            g = g * (1.0 - acts[i + 1].square())
            full_grad = g.t() @ acts[i]
            layer.work = dist.reduce_scatter_tensor(layer.grad, full_grad, async_op=True)
            g = g @ layer.full

    def update(self, lr):
        for layer in self.layers:
            layer.work.wait()
            layer.work = None
            layer.shard.add_(layer.grad, alpha=-lr / layer.world)


def main(dim=4096, depth=4, steps=40):
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(17 + dist.get_rank())
    engine = Engine([ShardedLinear(dim, dim, device) for _ in range(depth)], device)
    for step in range(steps):
        x = torch.randn(512, dim, device=device)
        target = torch.tanh(x.roll(1, dims=1))
        acts = engine.forward(x)
        loss = (acts[-1] - target).square().mean()
        engine.backward(acts, target)
        engine.update(lr=0.5)
        if step % 10 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
