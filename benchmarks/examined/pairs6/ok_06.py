"""Optimizer state partitioning: each rank updates one slice of the flat parameters."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class PartitionedAdamW:
    def __init__(self, model, lr):
        self.params = list(model.parameters())
        world, rank = dist.get_world_size(), dist.get_rank()
        numel = sum(p.numel() for p in self.params)
        padded = -(-numel // world) * world
        self.flat = torch.zeros(padded, device="cuda", dtype=torch.bfloat16)
        self.grad = torch.zeros_like(self.flat)
        offset = 0
        for p in self.params:
            n = p.numel()
            self.flat[offset:offset + n].copy_(p.detach().reshape(-1))
            p.data = self.flat[offset:offset + n].view_as(p)
            p.grad = self.grad[offset:offset + n].view_as(p)
            offset += n
        self.part = self.flat.chunk(world)[rank]
        self.master = self.part.float().requires_grad_()
        self.part_grad = torch.zeros(self.part.numel(), device="cuda", dtype=torch.bfloat16)
        self.inner = torch.optim.AdamW([self.master], lr=lr)
        self.gather_stream = torch.cuda.Stream()
        self.gathered = torch.cuda.Event()
        model.register_forward_pre_hook(self._before_forward)

    def _before_forward(self, module, args):
        torch.cuda.current_stream().wait_event(self.gathered)

    def step(self):
        dist.reduce_scatter_tensor(self.part_grad, self.grad, op=dist.ReduceOp.AVG)
        self.master.grad = self.part_grad.float()
        self.inner.step()
        with torch.no_grad():
            self.part.copy_(self.master)
        self.gather_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.gather_stream):
            dist.all_gather_into_tensor(self.flat, self.part)
            self.gathered.record()
        self.grad.zero_()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(1)
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(24)]).cuda().bfloat16()
    optimizer = PartitionedAdamW(model, lr=1e-4)
    for step in range(300):
        batch = torch.randn(32, 1024, device="cuda", dtype=torch.bfloat16)
        loss = (model(batch) - batch).float().square().mean()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
