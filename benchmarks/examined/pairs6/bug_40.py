"""Two branches are differentiated on their own streams into one flat gradient buffer."""
import os

import torch
import torch.distributed as dist
import torch.nn as nn


class BranchTrainer:
    def __init__(self, branches, lr=0.02):
        self.branches = branches
        self.params = [list(b.parameters()) for b in branches]
        sizes = [sum(p.numel() for p in ps) for ps in self.params]
        self.ipg_buffer = torch.zeros(sum(sizes), device="cuda")
        self.parts = self.ipg_buffer.split(sizes)
        self.lr = lr
        self.streams = [torch.cuda.current_stream()] + [torch.cuda.Stream() for _ in branches[1:]]
        self.reduction_stream = torch.cuda.Stream()

    def _accumulate(self, index, x):
        loss = (self.branches[index](x) - x).square().mean()
        grads = torch.autograd.grad(loss, self.params[index])
        torch.cat([g.reshape(-1) for g in grads], out=self.parts[index])

    def average_tensor(self):
        self.reduction_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.reduction_stream):
            self.ipg_buffer.div_(dist.get_world_size())
            dist.all_reduce(self.ipg_buffer)

    @torch.no_grad()
    def _apply(self):
        for params, part in zip(self.params, self.parts):
            for p, g in zip(params, part.split([p.numel() for p in params])):
                p.sub_(g.view_as(p), alpha=self.lr)

    def step(self, x):
        current = torch.cuda.current_stream()
        for index in reversed(range(len(self.branches))):
            stream = self.streams[index]
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                self._accumulate(index, x)
        self.average_tensor()
        for stream in [self.reduction_stream, *self.streams[1:]]:
            current.wait_stream(stream)
        self._apply()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(0)
    branches = [nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda() for _ in range(2)]
    trainer = BranchTrainer(branches)
    for _ in range(400):
        trainer.step(torch.randn(256, 1024, device="cuda"))
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
