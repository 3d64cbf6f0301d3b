"""Gradient reduction for a model with dense and expert parameters (two process groups)."""
import os

import torch
import torch.distributed as dist
from torch import nn


class MoELayer(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.router = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        gate = self.router(x).softmax(-1)
        return sum(gate[..., i:i + 1] * e(x) for i, e in enumerate(self.experts))


class GradReducer:
    def __init__(self, module, dense_group, expert_group):
        self.pending = {"dense": [], "expert": []}
        self.groups = {"dense": dense_group, "expert": expert_group}
        for name, p in module.named_parameters():
            kind = "expert" if ".experts." in name else "dense"
            p.register_post_accumulate_grad_hook(self._hook(kind))

    def _hook(self, kind):
        group = self.groups[kind]

        def launch(param):
            param.grad.div_(dist.get_world_size(group))
            work = dist.all_reduce(param.grad, group=group, async_op=True)
            self.pending[kind].append(work)

        return launch

    def finish(self):
        for works in self.pending.values():
            while works:
                works.pop().wait()


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    half = world // 2
    groups = [dist.new_group(list(range(half))), dist.new_group(list(range(half, world)))]
    model = nn.Sequential(*[MoELayer(1024, 4) for _ in range(4)]).cuda()
    reducer = GradReducer(model, dist.group.WORLD, groups[0 if rank < half else 1])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(50):
        x = torch.randn(256, 1024, device="cuda")
        loss = (model(x) - x).pow(2).mean()
        loss.backward()
        reducer.finish()
        opt.step()
        opt.zero_grad()
    print(rank, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
