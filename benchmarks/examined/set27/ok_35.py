"""ZeRO-2 style training loop: layer gradients go through two flat buffers while the next layer is computed."""
import math
import os

import torch
import torch.distributed as dist


class ShardedLayer:
    def __init__(self, dim, rank, world, device):
        self.dim = dim
        weight = torch.randn(dim, dim, device=device) / math.sqrt(dim)
        dist.broadcast(weight, src=0)
        self.weight = weight
        rows = dim // world
        self.rows = slice(rank * rows, (rank + 1) * rows)
        self.master = weight[self.rows].clone()
        self.grad_shard = torch.zeros_like(self.master)
        self.moment = torch.zeros_like(self.master)

    def forward(self, x):
        self.x = x
        self.pre = x @ self.weight.t()
        return torch.relu(self.pre)

    def backward(self, dy, weight_grad):
        dpre = dy * (self.pre > 0)
        torch.mm(dpre.t(), self.x, out=weight_grad)
        return dpre @ self.weight


class MultiGpuConfig:
    NUM_BUFFERS = 2

    def __init__(self, dim, device):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.comm_stream = torch.cuda.Stream(device)
        self.buffers = [torch.zeros(dim, dim, device=device) for _ in range(self.NUM_BUFFERS)]
        self.grads_ready = [torch.cuda.Event() for _ in range(self.NUM_BUFFERS)]
        self.buffer_free = [torch.cuda.Event() for _ in range(self.NUM_BUFFERS)]
        torch.cuda.synchronize(device)

    def reduce_layer(self, k, layer):
        compute = torch.cuda.current_stream()
        self.grads_ready[k].record(compute)
        self.comm_stream.wait_event(self.grads_ready[k])
        with torch.cuda.stream(self.comm_stream):
            dist.reduce_scatter_tensor(layer.grad_shard, self.buffers[k])
            layer.grad_shard.div_(self.world)
            self.buffer_free[k].record(self.comm_stream)


class Trainer:
    def __init__(self, dim, depth, device, lr=1e-4, beta=0.9):
        self.config = MultiGpuConfig(dim, device)
        self.layers = [ShardedLayer(dim, self.config.rank, self.config.world, device) for _ in range(depth)]
        self.lr, self.beta = lr, beta

    def backward(self, dy):
        compute = torch.cuda.current_stream()
        for i in range(len(self.layers) - 1, -1, -1):
            k = i % self.config.NUM_BUFFERS
            compute.wait_event(self.config.buffer_free[k])
            dy = self.layers[i].backward(dy, self.config.buffers[k])
            self.config.reduce_layer(k, self.layers[i])
        compute.wait_stream(self.config.comm_stream)

    def update(self):
        for layer in self.layers:
            layer.moment.mul_(self.beta).add_(layer.grad_shard, alpha=1 - self.beta)
            layer.master.sub_(layer.moment, alpha=self.lr)
            dist.all_gather_into_tensor(layer.weight, layer.master)

    def step(self, x, t):
        h = x
        for layer in self.layers:
            h = layer.forward(h)
        diff = h - t
        loss = diff.square().mean()
        self.backward(diff * (2.0 / diff.numel()))
        self.update()
        return loss


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(1)
    trainer = Trainer(dim=4096, depth=16, device=device)
    torch.manual_seed(100 + dist.get_rank())
    for step in range(200):
        x = torch.randn(512, 4096, device=device)
        t = torch.randn(512, 4096, device=device)
        loss = trainer.step(x, t)
        if step % 20 == 0 and dist.get_rank() == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
