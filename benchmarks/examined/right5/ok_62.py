import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn


class LoadBalancer(nn.Module):
    """Router whose load statistics are averaged over the group while the experts run."""

    def __init__(self, dim: int, experts: int):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.register_buffer("bias", torch.zeros(experts))
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, x):
        scores = self.gate(x).sigmoid()
        choice = (scores + self.bias).argmax(-1)
        load = torch.bincount(choice, minlength=len(self.experts)).float()
        global_load = funcol.all_reduce(load, "sum", dist.group.WORLD)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows = (choice == e).nonzero().squeeze(-1)
            if rows.numel():
                out.index_add_(0, rows, expert(x[rows]) * scores[rows, e, None])
        mean = global_load.mean()
        self.bias += 0.001 * torch.sign(mean - global_load)
        return out


@torch.no_grad()
def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    net = LoadBalancer(256, 8).cuda()
    for _ in range(50):
        y = net(torch.randn(1024, 256, device="cuda"))
    print(dist.get_rank(), y.norm().item(), net.bias.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
