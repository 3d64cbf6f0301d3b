from typing import Dict, List, Tuple

import torch
import torch.distributed as dist
from torch import nn


class HybridGradSync:
    """Dense gradients over the world, expert gradients over the expert-data group."""

    def __init__(self, model: nn.Module, expert_group, dense_group):
        self.groups = {"expert": expert_group, "dense": dense_group}
        self.flights: Dict[str, List[Tuple[dist.Work, torch.Tensor, torch.Tensor]]] = {"expert": [], "dense": []}
        for name, p in model.named_parameters():
            kind = "expert" if ".experts." in f".{name}" else "dense"
            p.register_post_accumulate_grad_hook(self._make_hook(kind))

    def _make_hook(self, kind: str):
        group = self.groups[kind]
        scale = 1.0 / dist.get_world_size(group)

        def hook(p):
            wire = p.grad.to(torch.bfloat16).mul_(scale)
            self.flights[kind].append((dist.all_reduce(wire, group=group, async_op=True), wire, p.grad))

        return hook

    def _land(self, kind: str):
        for work, wire, grad in self.flights[kind]:
            work.wait()
            grad.copy_(wire)
        self.flights[kind].clear()

    def wait_all(self):
        for kind in self.flights:
            self._land(kind)


class Net(nn.Module):
    def __init__(self, dim=512, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        w = self.gate(x).softmax(-1)
        return sum(w[:, i:i + 1] * e(x) for i, e in enumerate(self.experts))


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    half = max(world // 2, 1)
    groups = [dist.new_group(list(range(s, min(s + half, world)))) for s in range(0, world, half)]
    net = Net().cuda()
    sync = HybridGradSync(net, groups[rank // half], dist.group.WORLD)
    opt = torch.optim.AdamW(net.parameters())
    for _ in range(30):
        x = torch.randn(128, 512, device="cuda")
        (net(x) - x).square().mean().backward()
        sync.wait_all()
        opt.step()
        opt.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
