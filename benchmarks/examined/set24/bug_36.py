"""Sharded data parallelism with double-buffered unsharded gradients."""
from collections import deque

import torch
import torch.distributed as dist


class GradReducePipeline:
    """Reduce-scatters full gradients on a side stream."""

    def __init__(self, n_units, numel, device, n_buffers=2):
        self.world = dist.get_world_size()
        self.rs_stream = torch.cuda.Stream(device)
        self.buffers = [torch.zeros(numel, device=device) for _ in range(n_buffers)]
        self.shards = [torch.zeros(numel // self.world, device=device) for _ in range(n_units)]
        per_buffer = (n_units + n_buffers - 1) // n_buffers
        self.assignment = [u // per_buffer for u in range(n_units)]
        self.queue = deque()

    def wait_for_previous(self, keep_n=0):
        while len(self.queue) > keep_n:
            _, event = self.queue.popleft()
            torch.cuda.current_stream().wait_event(event)

    def get_main_grad(self, unit):
        self.wait_for_previous(keep_n=1)
        return self.buffers[self.assignment[unit]]

    def reduce(self, unit):
        full = self.buffers[self.assignment[unit]]
        self.rs_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.rs_stream):
            dist.reduce_scatter_tensor(self.shards[unit], full)
            event = torch.cuda.Event()
            event.record(self.rs_stream)
        self.queue.append((unit, event))


class ShardedStack:
    def __init__(self, n_units, dim, device):
        self.weights = [torch.randn(dim, dim, device=device) * 0.02 for _ in range(n_units)]
        self.pipeline = GradReducePipeline(n_units, dim * dim, device)
        self.dim = dim

    def forward(self, x):
        acts = [x]
        for w in self.weights:
            acts.append(torch.tanh(acts[-1] @ w))
        return acts

    def backward(self, acts, grad):
        for unit in reversed(range(len(self.weights))):
            grad = grad * (1 - acts[unit + 1].square())
            main_grad = self.pipeline.get_main_grad(unit).view(self.dim, self.dim)
            torch.mm(acts[unit].t(), grad, out=main_grad)
            self.pipeline.reduce(unit)
            grad = grad @ self.weights[unit].t()
        self.pipeline.wait_for_previous()


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank())
    torch.cuda.set_device(device)
    stack = ShardedStack(8, 4096, device)
    for _ in range(20):
        acts = stack.forward(torch.randn(1024, 4096, device=device))
        stack.backward(acts, acts[-1] / acts[-1].numel())
        print(sum(s.norm().item() for s in stack.pipeline.shards))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
