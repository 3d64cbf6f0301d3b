import os

import torch
import torch.distributed as dist
from torch import nn


class OverlapReducer:
    def __init__(self, model):
        self.model = model
        self.world = dist.get_world_size()
        self.handles = {}
        for p in model.parameters():
            if p.requires_grad:
                dist.broadcast(p.data, src=0)
                p.register_post_accumulate_grad_hook(self._launch)

    def _launch(self, p):
        self.handles[p] = dist.all_reduce(p.grad, op=dist.ReduceOp.SUM, async_op=True)

    def drain(self):
        for name, p in sorted(self.model.named_parameters(), key=lambda kv: kv[0], reverse=True):
            work = self.handles.pop(p, None)
            if work is not None:
                work.wait()
                yield name, p


class Net(nn.Module):
    def __init__(self, dim, depth, classes):
        super().__init__()
        self.inp = nn.Linear(dim, 2 * dim)
        self.mid = nn.ModuleList(nn.Linear(2 * dim, 2 * dim) for _ in range(depth))
        self.out = nn.Linear(2 * dim, classes)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        for m in self.mid:
            x = x + torch.relu(m(x))
        return self.out(x)


class Stepper:
    def __init__(self, reducer, lr):
        self.reducer = reducer
        self.lr = lr
        self.norms = {}

    @torch.no_grad()
    def step(self):
        for name, p in self.reducer.drain():
            p.grad.div_(self.reducer.world)
            self.norms[name] = p.grad.norm()
            p.add_(p.grad, alpha=-self.lr)
            p.grad = None

    def report(self):
        return {k: v.item() for k, v in self.norms.items()}


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    torch.manual_seed(dist.get_rank())
    net = Net(64, 3, 10).cuda()
    stepper = Stepper(OverlapReducer(net), lr=0.05)
    for _ in range(50):
        x = torch.randn(256, 64, device="cuda")
        loss = nn.functional.cross_entropy(net(x), x[:, :10].argmax(1))
        loss.backward()
        stepper.step()
    if dist.get_rank() == 0:
        print(loss.item(), stepper.report())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
