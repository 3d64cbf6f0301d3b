"""Tasks with their own streams write slices of one gradient bucket that is reduced at the end."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class Task:
    def __init__(self, dim, out):
        self.head = nn.Sequential(nn.Linear(dim, 2048), nn.ReLU(), nn.Linear(2048, out)).cuda()
        self.params = list(self.head.parameters())
        self.numel = sum(p.numel() for p in self.params)
        self.out = out
        self.stream = torch.cuda.Stream()


class MultiTaskReducer:
    def __init__(self, tasks):
        self.tasks = tasks
        self.bucket = torch.zeros(sum(t.numel for t in tasks), device="cuda")
        self.slices = dict(zip(tasks, self.bucket.split([t.numel for t in tasks])))
        self.comm = torch.cuda.Stream()
        self.writers = {}

    def pack(self, task):
        torch.cat([p.grad.view(-1) for p in task.params], out=self.slices[task])
        self.writers[task] = torch.cuda.current_stream().record_event()

    def reduce(self):
        for event in self.writers.values():
            self.comm.wait_event(event)
        self.writers.clear()
        with torch.cuda.stream(self.comm):
            dist.all_reduce(self.bucket, op=dist.ReduceOp.AVG)

    def unpack(self, task):
        torch.cuda.current_stream().wait_stream(self.comm)
        offset = 0
        for p in task.params:
            p.grad.copy_(self.slices[task][offset:offset + p.numel()].view_as(p))
            offset += p.numel()


def run_task(task, x, reducer):
    y = x[:, :task.out]
    (task.head(x) - y).square().mean().backward()
    reducer.pack(task)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    tasks = [Task(512, out) for out in (16, 64, 128)]
    reducer = MultiTaskReducer(tasks)
    optimizer = torch.optim.SGD([p for t in tasks for p in t.params], lr=0.01)
    main_stream = torch.cuda.current_stream()
    for _ in range(300):
        x = torch.randn(1024, 512, device="cuda")
        for task in tasks:
            task.stream.wait_stream(main_stream)
            with torch.cuda.stream(task.stream):
                run_task(task, x, reducer)
        reducer.reduce()
        for task in tasks:
            main_stream.wait_stream(task.stream)
            reducer.unpack(task)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
